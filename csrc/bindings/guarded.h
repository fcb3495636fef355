// A native object that several Python threads may hold while its bulk work runs without the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include <mutex>
#include <type_traits>
#include <vector>

#include "unlocked.h"

namespace bindings {

// Bulk work runs without the GIL, so another Python thread may come in meanwhile: it waits here.
// The lock is always released before the GIL is taken again.
template <typename T>
struct Guarded {
  template <typename... Args,
            std::enable_if_t<std::is_constructible<T, const Args&...>::value, int> = 0>
  explicit Guarded(const Args&... args) : value(args...) {}
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  template <typename Read>
  auto read(Read read) const {
    const std::lock_guard<std::mutex> lock(mutex);
    return read(value);
  }

  template <typename Work>
  auto release_gil(Work work) {
    const Unlocked unlocked;
    const std::lock_guard<std::mutex> lock(mutex);
    return work(value);
  }

  T value;
  mutable std::mutex mutex;
};

// A getter that reads one member function of a guarded value.
template <typename T, typename Result>
auto getter(Result (T::*member)() const) {
  return [member](const Guarded<T>& self) {
    return self.read([member](const T& value) { return (value.*member)(); });
  };
}

// At most `limit` draft tokens of a guarded value, as a list.
template <typename T>
nanobind::typed<nanobind::list, int> draft(const Guarded<T>& self, size_t limit) {
  std::vector<int32_t> tokens(limit);
  tokens.resize(self.read([&](const T& value) { return value.draft(limit, tokens.data()); }));
  nanobind::typed<nanobind::list, int> out;
  for (const int32_t token : tokens) out.append(token);
  return out;
}

}  // namespace bindings
