// A fixed team of threads that run one function together, with a cheap barrier between phases.
//
// The caller is member 0. Between runs members wait busily for a short time, since the next run
// of a decoding loop comes within microseconds, and then sleep.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace maglio {

class ThreadPool {
 public:
  explicit ThreadPool(int size);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  // Runs work(member) on every member and returns when all are done. `work` must not throw.
  // One run at a time: the caller holds whatever lock that needs.
  void run(const std::function<void(int)>& work);

  // Waits until every member has arrived. Only inside run().
  void barrier();

 private:
  void loop(int member);
  bool wait_for_run(uint64_t seen);

  int size_;
  std::vector<std::thread> threads_;
  const std::function<void(int)>* work_ = nullptr;
  std::atomic<uint64_t> run_{0};
  std::atomic<bool> stop_{false};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};
};

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
