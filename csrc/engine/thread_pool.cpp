#include "engine/thread_pool.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engine/errors.h"
#include "engine/fork.h"

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

// The threads of one process, and what they share.
class ThreadPool::Team {
 public:
  explicit Team(int size) : size_(size) {
    threads_.reserve(static_cast<size_t>(size - 1));
    try {
      for (int member = 1; member < size; ++member) {
        threads_.emplace_back([this, member] { loop(member); });
      }
    } catch (const std::exception& error) {
      const size_t refused = threads_.size() + 2;
      end();
      throw ThreadsRefused("the system refused to start thread " + std::to_string(refused) +
                           " of " + std::to_string(size) + " (" + error.what() +
                           "); load the model with fewer threads, or raise the limit on processes "
                           "(ulimit -u, or the container's)");
    }
  }
  ~Team() { end(); }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  void run(const std::function<void(int)>& work) {
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

  void barrier() {
    const uint32_t phase = phase_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
      arrived_.store(0, std::memory_order_relaxed);
      phase_.store(phase + 1, std::memory_order_release);
      return;
    }
    spin_until([&] { return phase_.load(std::memory_order_acquire) != phase; });
  }

 private:
  void end() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  bool wait_for_run(uint64_t seen) {
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

  void loop(int member) {
    for (uint64_t seen = 0; wait_for_run(seen);) {
      ++seen;
      (*work_)(member);
      barrier();
    }
  }

  const int size_;
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

ThreadPool::ThreadPool(int size)
    : size_(size), forks_(forks()), team_(size > 1 ? std::make_unique<Team>(size) : nullptr) {}

ThreadPool::~ThreadPool() {
  // Joining threads of another process would wait for ever.
  if (forks_ != forks()) static_cast<void>(team_.release());
}

void ThreadPool::survive_forks() {
  const uint64_t now = forks();
  if (size_ == 1 || forks_ == now) return;
  auto team = std::make_unique<Team>(size_);
  static_cast<void>(team_.release());
  team_ = std::move(team);
  forks_ = now;
}

void ThreadPool::run(const std::function<void(int)>& work) {
  if (size_ == 1) return work(0);
  team_->run(work);
}

void ThreadPool::barrier() {
  if (size_ > 1) team_->barrier();
}

void run_shares(int count, const std::function<void(int)>& share) {
  std::vector<std::thread> helpers;
  helpers.reserve(static_cast<size_t>(count - 1));
  int member = 1;
  try {
    for (; member < count; ++member) helpers.emplace_back(share, member);
  } catch (const std::exception&) {
    // The shares that nobody took are done here.
  }
  share(0);
  for (; member < count; ++member) share(member);
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace maglio
