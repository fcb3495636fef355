// A frozen automaton in a file: written once, opened without a rebuild.
//
// The file is a header, the fingerprint (UTF-8, zero-padded to 8 bytes), and the body of
// frozen_automaton.h, in the byte order of the machine that wrote it. Opening checks everything a
// reader relies on, so a damaged or hostile file is refused and never read out of bounds. Files of
// up to 256 MiB are read; the pages of larger ones stay the file's. Before a cursor reads one of
// these, it sees whether somebody has written into the file; then it throws IndexFileError. Only a
// file that is cut short within the microseconds of a draft ends the program (SIGBUS): replace an
// index file, by renaming a new one over it.
#ifndef MAGLIO_INDEX_FILE_H_
#define MAGLIO_INDEX_FILE_H_

#include <memory>
#include <stdexcept>
#include <string>

#include "draft/frozen_automaton.h"

namespace maglio {

// what() names the file and the reason.
class IndexFileError : public std::runtime_error {
 public:
  IndexFileError(const std::string& path, const std::string& reason)
      : std::runtime_error("index file '" + path + "': " + reason) {}
};

// Writes an index file into an open one, from where that stands. `fingerprint` names the tokenizer
// that made the ids. Throws std::invalid_argument when it has more than 4096 bytes, and
// std::system_error when it cannot be written.
void write_index(const FrozenAutomaton& index, int descriptor, const std::string& fingerprint);

constexpr size_t kMaxIndexRead = size_t{256} << 20;  // larger files are mapped

struct OpenedIndex {
  std::shared_ptr<const FrozenAutomaton> index;
  std::string fingerprint;
};

// Reads or maps the file and verifies it. Throws IndexFileError when it cannot be read, is not a
// valid index, or, with `expected`, has another fingerprint.
OpenedIndex open_index(const std::string& path, const std::string* expected,
                       size_t max_read = kMaxIndexRead);

}  // namespace maglio

#endif  // MAGLIO_INDEX_FILE_H_
