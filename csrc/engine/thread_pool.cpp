#include "engine/thread_pool.h"

#include <time.h>

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

// Long enough to cover what happens between two forwards of a decoding loop, short beside the time
// slice for which another process may keep a member from running.
constexpr int64_t kBusyWait = 300'000;

// --- Clocks, in nanoseconds.

int64_t now() {
  const auto t = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(t).count();
}

// For how long this thread has run.
int64_t processor_time() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// Whether done() came true while waiting busily.
template <typename Done>
bool wait_busily(Done done) {
  int64_t until = 0;
  for (int spins = 1; !done(); ++spins) {
    relax();
    if (spins % 64 != 0) continue;
    if (until == 0) until = now() + kBusyWait;
    if (now() > until) return done();
  }
  return true;
}

// Where threads sleep until they are woken.
class Bed {
 public:
  // `done` must be false until a store that is followed by wake().
  template <typename Done>
  void sleep_until(Done done) {
    std::unique_lock<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1);
    woken_.wait(lock, done);
    sleepers_.fetch_sub(1);
  }

  bool is_empty() const { return sleepers_.load() == 0; }

  void wake() {
    if (is_empty()) return;
    // Taking the lock orders this after a sleeper's last look.
    {
      std::lock_guard<std::mutex> lock(mutex_);
    }
    woken_.notify_all();
  }

 private:
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable woken_;
};

// For how long this thread has slept at barriers while others had not arrived.
thread_local int64_t slept = 0;

}  // namespace

class ThreadPool::Threads {
 public:
  explicit Threads(int size)
      : beds_(static_cast<size_t>(size)), stolen_(static_cast<size_t>(size)) {
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
  ~Threads() { end(); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  // Runs work(member) on `team` members.
  void run(const std::function<void(int)>& work, int team) {
    work_ = &work;
    began_ = now();
    team_ = team;
    run_.store(((run_.load() >> kTeamBits) + 1) << kTeamBits | static_cast<uint64_t>(team));
    for (int member = 1; member < team; ++member) beds_[static_cast<size_t>(member)].wake();
    take_part(0);
  }

  // Of all members of the last run together, in nanoseconds.
  int64_t stolen() const {
    int64_t all = 0;
    for (int member = 0; member < team_; ++member) all += stolen_[static_cast<size_t>(member)];
    return all;
  }
  // When it began.
  int64_t began() const { return began_; }

  void barrier() {
    const uint32_t phase = phase_.load(std::memory_order_relaxed);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == team_) {
      arrived_.store(0, std::memory_order_relaxed);
      if (!bed_.is_empty()) released_ = now();
      phase_.store(phase + 1);
      bed_.wake();
      return;
    }
    const auto is_over = [&] { return phase_.load() != phase; };
    if (wait_busily(is_over)) return;
    const int64_t from = now();
    bed_.sleep_until(is_over);
    const int64_t released = released_.load();
    if (released > from) slept += released - from;
  }

 private:
  static constexpr int kTeamBits = 16;

  void end() {
    stop_.store(true);
    for (Bed& bed : beds_) bed.wake();
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  void take_part(int member) {
    const int64_t ran = processor_time();
    slept = 0;
    (*work_)(member);
    stolen_[static_cast<size_t>(member)] = now() - began_ - slept - (processor_time() - ran);
    barrier();
  }

  void loop(int member) {
    uint64_t seen = 0;
    const auto is_called = [&] {
      const uint64_t run = run_.load();
      return stop_.load() ||
             (run != seen && member < static_cast<int>(run & ((1 << kTeamBits) - 1)));
    };
    for (;;) {
      if (!wait_busily(is_called)) beds_[static_cast<size_t>(member)].sleep_until(is_called);
      if (stop_.load()) return;
      // A run that this member belongs to cannot end, and so no other begin, without it.
      seen = run_.load();
      take_part(member);
    }
  }

  std::vector<std::thread> threads_;
  std::vector<Bed> beds_;  // of members between runs
  Bed bed_;                // at barriers
  const std::function<void(int)>* work_ = nullptr;
  int64_t began_ = 0;
  int team_ = 0;
  std::vector<int64_t> stolen_;   // [member], of the last run
  std::atomic<uint64_t> run_{0};  // its number, and its team in the lowest bits
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> released_{0};  // when the last barrier that was slept at opened
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<uint32_t> phase_{0};
};

ThreadPool::ThreadPool(int size)
    : size_(size),
      forks_(forks()),
      team_size_(size),
      threads_(size > 1 ? std::make_unique<Threads>(size) : nullptr) {}

ThreadPool::~ThreadPool() {
  // Joining threads of another process would wait for ever.
  if (forks_ != forks()) static_cast<void>(threads_.release());
}

void ThreadPool::survive_forks() {
  const uint64_t now = forks();
  if (size_ == 1 || forks_ == now) return;
  auto threads = std::make_unique<Threads>(size_);
  static_cast<void>(threads_.release());
  threads_ = std::move(threads);
  forks_ = now;
}

void ThreadPool::run(const std::function<void(int)>& work) {
  if (size_ == 1) return work(0);
  threads_->run(work, team());
  team_size_.note(1e-9 * static_cast<double>(now() - threads_->began()),
                  1e-9 * static_cast<double>(threads_->stolen()));
}

void ThreadPool::barrier() {
  if (size_ > 1) threads_->barrier();
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
