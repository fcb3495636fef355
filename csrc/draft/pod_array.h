// PodArray: a flat array of plain structs that grows with realloc.
//
// std::vector copies on growth and briefly holds both copies. realloc lets the C library move whole
// pages instead (mremap), so a large index grows without a pause and without a memory peak, and the
// spare capacity is never touched, hence never resident.
#ifndef MAGLIO_POD_ARRAY_H_
#define MAGLIO_POD_ARRAY_H_

#include <cstddef>
#include <cstdlib>
#include <new>
#include <type_traits>

namespace maglio {

template <typename T>
class PodArray {
  static_assert(std::is_trivially_copyable<T>::value, "elements are moved as bytes");

 public:
  PodArray() = default;
  ~PodArray() { release(); }
  PodArray(const PodArray&) = delete;
  PodArray& operator=(const PodArray&) = delete;

  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t capacity_bytes() const { return capacity_ * sizeof(T); }

  // Throws std::bad_alloc, leaving the array as it was.
  void push_back(const T& value) {
    const T copy = value;  // `value` may live in this array
    if (size_ == capacity_) grow(size_ + 1);
    data_[size_++] = copy;
  }

  // Appends `count` elements with unspecified contents. Throws std::bad_alloc.
  void append_raw(size_t count) {
    if (size_ + count > capacity_) grow(size_ + count);
    size_ += count;
  }

  // Keeps the first `count` elements and the memory.
  void shrink(size_t count) { size_ = count; }

  // Gives the memory back.
  void release() {
    std::free(data_);
    data_ = nullptr;
    size_ = capacity_ = 0;
  }

 private:
  void grow(size_t wanted) {
    size_t capacity = capacity_ + capacity_ / 2 + 16;
    if (capacity < wanted) capacity = wanted;
    void* moved = std::realloc(static_cast<void*>(data_), capacity * sizeof(T));
    if (moved == nullptr) throw std::bad_alloc();
    data_ = static_cast<T*>(moved);
    capacity_ = capacity;
  }

  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace maglio

#endif  // MAGLIO_POD_ARRAY_H_
