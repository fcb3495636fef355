// What a caller of the engine can do something about. Each says what happened and what to do.
#pragma once

#include <new>
#include <stdexcept>
#include <string>

namespace maglio {

// An argument that can never work.
class InvalidInput : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

// More tokens than a cache has room for.
class ContextFull : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The system does not let us start as many threads.
class ThreadsRefused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// No memory for the pages of a cache.
class OutOfPages : public std::bad_alloc {
 public:
  explicit OutOfPages(const std::string& message) : message_(message) {}
  const char* what() const noexcept override { return message_.what(); }

 private:
  std::runtime_error message_;  // copies without throwing
};

}  // namespace maglio
