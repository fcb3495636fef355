// Threads that run one function together, with a cheap barrier between phases.
//
// The caller is member 0. Members wait busily for a short time, since the next phase, and in a
// decoding loop the next run, comes within microseconds, and then sleep. A run has as many members
// as processors are free for (team_size.h); the others sleep.
//
// A child of fork() has none of the threads: survive_forks() starts others there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "engine/team_size.h"

namespace maglio {

class ThreadPool {
 public:
  // Throws ThreadsRefused.
  explicit ThreadPool(int size);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  // Threads, the caller's included.
  int size() const { return size_; }
  // Members of this run, or of the next one outside run().
  int team() const { return team_size_.now(); }

  // To be called before run(), where something can still fail. Throws ThreadsRefused, and can then
  // be called again.
  void survive_forks();

  // Runs work(member) on every member below team() and returns when all are done. `work` must not
  // throw. One run at a time: the caller holds whatever lock that needs.
  void run(const std::function<void(int)>& work);

  // Waits until every member has arrived. Only inside run().
  void barrier();

 private:
  class Threads;

  const int size_;
  uint64_t forks_;  // where the threads are
  TeamSize team_size_;
  std::unique_ptr<Threads> threads_;
};

// Runs share(member) for every member below `count`, on as many threads as the system lets us have.
// `share` must not throw.
void run_shares(int count, const std::function<void(int)>& share);

// The part [begin, end) of n items that belongs to one member of a team.
struct Share {
  int begin;
  int end;
};
inline Share share_of(int n, int member, int team) {
  return {static_cast<int>(static_cast<int64_t>(n) * member / team),
          static_cast<int>(static_cast<int64_t>(n) * (member + 1) / team)};
}

}  // namespace maglio
