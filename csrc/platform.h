// What differs between POSIX systems. (What their processors can do: kernels/processor.cpp.)
#pragma once

#include <sys/mman.h>
#include <sys/stat.h>

#include <cstddef>

namespace maglio {

// A flag for mmap: read all of the file now, where that can be asked for.
#ifdef MAP_POPULATE
constexpr int kMapAndRead = MAP_POPULATE;
#else
constexpr int kMapAndRead = 0;
#endif

// Whether memory should be in huge pages, where a program has a say.
inline void prefer_huge_pages(void* memory, size_t bytes, bool huge) {
#ifdef MADV_HUGEPAGE
  madvise(memory, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#else
  (void)memory, (void)bytes, (void)huge;
#endif
}

// When a file was last written.
inline timespec modified(const struct stat& file) {
#ifdef __APPLE__
  return file.st_mtimespec;
#else
  return file.st_mtim;
#endif
}

}  // namespace maglio
