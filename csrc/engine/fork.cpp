#include "engine/fork.h"

#include <pthread.h>

#include <atomic>
#include <new>
#include <shared_mutex>

namespace maglio {
namespace {

std::atomic<uint64_t> generation{0};

// Never destroyed: threads may outlive the end of main().
alignas(std::shared_mutex) unsigned char storage[sizeof(std::shared_mutex)];
std::shared_mutex* gate = new (storage) std::shared_mutex;

void before_fork() { gate->lock(); }
void after_in_parent() { gate->unlock(); }
void after_in_child() {
  // The child's thread has another number than the one that took the lock, so it cannot unlock it.
  gate = new (storage) std::shared_mutex;
  generation.fetch_add(1);
}

[[maybe_unused]] const int registered =
    ::pthread_atfork(before_fork, after_in_parent, after_in_child);

}  // namespace

HoldsForks::HoldsForks() { gate->lock_shared(); }
HoldsForks::~HoldsForks() { gate->unlock_shared(); }

uint64_t forks() { return generation.load(std::memory_order_relaxed); }

}  // namespace maglio
