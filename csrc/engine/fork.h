// Threads and fork(). The child of a fork has one thread; what the others held stays held in it for
// ever, and what they were changing stays half changed. So fork() waits for such work to end.
#pragma once

#include <cstdint>

namespace maglio {

// While one lives, fork() waits. For work that takes locks, on threads that fork() would otherwise
// not wait for; it must end without anything from the thread that forks.
class HoldsForks {
 public:
  HoldsForks();
  ~HoldsForks();
  HoldsForks(const HoldsForks&) = delete;
  HoldsForks& operator=(const HoldsForks&) = delete;
};

// How many forks this process is away from the one that began. Threads are those of the process in
// which this was the same.
uint64_t forks();

}  // namespace maglio
