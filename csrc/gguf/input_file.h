// A file that is read by position, from several threads at once.
//
// Nothing of it is mapped: whatever others do to the file meanwhile, a read ends in bytes or in an
// error.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace maglio {

struct GgufError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class InputFile {
 public:
  // Of an open descriptor, which stays the caller's. Throws GgufError.
  explicit InputFile(int descriptor);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Bytes when it was opened.
  uint64_t size() const { return static_cast<uint64_t>(status_.st_size); }
  // When it was last written to before it was opened, in nanoseconds.
  int64_t modified() const;
  // Whether nobody has written to it since then.
  bool unchanged() const;
  // Reads [offset, offset + bytes). Throws GgufError when it cannot be read or ends before that.
  void read(uint64_t offset, uint8_t* to, size_t bytes) const;

 private:
  int descriptor_;
  struct stat status_{};
};

}  // namespace maglio
