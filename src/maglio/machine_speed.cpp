// How fast this machine reads memory, and multiplies and adds bytes, on several threads.
// machine_speed.py compiles it for this processor.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace {

// --- Products of bytes: one instruction (or two) makes kProducts of them and adds them to sums.
// They are written out, because compilers leave out what is not used.

#if defined(__AVX512VNNI__)
using Bytes = __m512i;
constexpr int kProducts = 64;
inline void add_products(Bytes& sums, Bytes a, Bytes b) {
  __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(a), "v"(b));
}
#elif defined(__AVXVNNI__)
using Bytes = __m256i;
constexpr int kProducts = 32;
inline void add_products(Bytes& sums, Bytes a, Bytes b) {
  __asm__ volatile("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sums) : "x"(a), "x"(b));
}
#elif defined(__AVX2__)
// Sums of 16 bits. An engine has to widen them now and then, which is not counted here.
using Bytes = __m256i;
constexpr int kProducts = 32;
inline void add_products(Bytes& sums, Bytes a, Bytes b) {
  Bytes products;
  __asm__ volatile("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0"
                   : "+x"(sums), "=&x"(products)
                   : "x"(a), "x"(b));
}
#elif defined(__ARM_FEATURE_DOTPROD)
using Bytes = int8x16_t;
constexpr int kProducts = 16;
inline void add_products(Bytes& sums, Bytes a, Bytes b) {
  __asm__ volatile("sdot %0.4s, %1.16b, %2.16b" : "+w"(sums) : "w"(a), "w"(b));
}
#else
#define MAGLIO_NO_PRODUCTS
#endif

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void on_threads(int threads, const std::function<void(int)>& work) {
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work, i);
  work(0);
  for (std::thread& other : others) other.join();
}

volatile uint64_t sink;

// Many sums hide the latency of one; the compiler makes vectors of them.
uint64_t sum_of(const uint64_t* values, size_t n) {
  uint64_t sums[64] = {};
  for (size_t i = 0; i + 64 <= n; i += 64) {
    for (size_t j = 0; j < 64; ++j) sums[j] += values[i + j];
  }
  uint64_t all = 0;
  for (const uint64_t sum : sums) all += sum;
  return all;
}

}  // namespace

// Bytes read per second. The buffer of `bytes` has to be larger than all caches.
extern "C" double memory_rate(int threads, size_t bytes) {
  const size_t share = bytes / sizeof(uint64_t) / static_cast<size_t>(threads);
  static std::unique_ptr<uint64_t[]> buffer;
  static size_t held = 0;
  const size_t values = share * static_cast<size_t>(threads);
  if (held < values) {
    buffer = std::make_unique<uint64_t[]>(values);  // written, so that its pages exist
    held = values;
  }
  const double seconds = seconds_of([&] {
    on_threads(threads,
               [&](int i) { sink = sum_of(buffer.get() + share * static_cast<size_t>(i), share); });
  });
  return static_cast<double>(values * sizeof(uint64_t)) / seconds;
}

// Products of bytes, each added to a sum, per second, `steps` vectors on each thread; 0 where it is
// not known how this processor does it best.
extern "C" double multiply_add_rate(int threads, size_t steps) {
#ifdef MAGLIO_NO_PRODUCTS
  static_cast<void>(threads);
  static_cast<void>(steps);
  return 0;
#else
  constexpr int kSums = 12;  // they hide the latency, and fit in registers beside the inputs
  const double seconds = seconds_of([&] {
    on_threads(threads, [&](int) {
      Bytes sums[kSums] = {}, a = {}, b = {};
      for (size_t step = 0; step < steps; step += kSums) {
#pragma GCC unroll 16
        for (Bytes& s : sums) add_products(s, a, b);
      }
    });
  });
  return static_cast<double>(threads) * static_cast<double>(steps) * kProducts / seconds;
#endif
}
