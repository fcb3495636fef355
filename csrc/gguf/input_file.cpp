#include "gguf/input_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "platform.h"

namespace maglio {
namespace {

GgufError system_error() { return GgufError("it cannot be read: " + std::string(strerror(errno))); }

int64_t modified_at(const struct stat& status) {
  return int64_t{1000000000} * modified(status).tv_sec + modified(status).tv_nsec;
}

}  // namespace

InputFile::InputFile(int descriptor) : descriptor_(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)) {
  if (descriptor_ < 0) throw system_error();
  if (::fstat(descriptor_, &status_) != 0) {
    const GgufError error = system_error();
    ::close(descriptor_);
    throw error;
  }
}

InputFile::~InputFile() { ::close(descriptor_); }

int64_t InputFile::modified() const { return modified_at(status_); }

bool InputFile::unchanged() const {
  struct stat now{};
  return ::fstat(descriptor_, &now) == 0 && now.st_size == status_.st_size &&
         modified_at(now) == modified();
}

void InputFile::read(uint64_t offset, uint8_t* to, size_t bytes) const {
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, to, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error();
    if (got == 0) {
      throw GgufError("it was cut short while it was read: there is no byte " +
                      std::to_string(offset) + " of " + std::to_string(size()) +
                      " any more; wait until it is complete, and load it again");
    }
    offset += static_cast<uint64_t>(got);
    to += got;
    bytes -= static_cast<size_t>(got);
  }
}

}  // namespace maglio
