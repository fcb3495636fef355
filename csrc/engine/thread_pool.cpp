#include "engine/thread_pool.h"

#include <chrono>

namespace maglio {
namespace {

// Long enough to cover what happens between two forwards of a decoding loop.
constexpr auto kBusyWait = std::chrono::microseconds(300);

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// Spins until done() holds; gives the processor away now and then, in case there are more threads
// than processors.
template <typename Done>
void spin_until(Done done) {
  for (int spins = 1; !done(); ++spins) {
    relax();
    if (spins % 64 == 0) std::this_thread::yield();
  }
}

}  // namespace

ThreadPool::ThreadPool(int size) : size_(size) {
  for (int member = 1; member < size; ++member) {
    threads_.emplace_back([this, member] { loop(member); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run(const std::function<void(int)>& work) {
  if (size_ == 1) return work(0);
  work_ = &work;
  run_.fetch_add(1);
  if (sleepers_.load() > 0) {
    // Taking the lock orders this wake-up after a sleeper's last look at run_.
    {
      std::lock_guard<std::mutex> lock(mutex_);
    }
    wake_.notify_all();
  }
  work(0);
  barrier();
}

void ThreadPool::barrier() {
  if (size_ == 1) return;
  const uint32_t phase = phase_.load(std::memory_order_relaxed);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  spin_until([&] { return phase_.load(std::memory_order_acquire) != phase; });
}

bool ThreadPool::wait_for_run(uint64_t seen) {
  const auto until = std::chrono::steady_clock::now() + kBusyWait;
  for (int spins = 1;; ++spins) {
    if (run_.load() != seen) return true;
    if (stop_.load()) return false;
    relax();
    if (spins % 256 == 0 && std::chrono::steady_clock::now() > until) break;
  }
  std::unique_lock<std::mutex> lock(mutex_);
  sleepers_.fetch_add(1);
  wake_.wait(lock, [&] { return run_.load() != seen || stop_.load(); });
  sleepers_.fetch_sub(1);
  return run_.load() != seen;
}

void ThreadPool::loop(int member) {
  for (uint64_t seen = 0; wait_for_run(seen);) {
    ++seen;
    (*work_)(member);
    barrier();
  }
}

}  // namespace maglio
