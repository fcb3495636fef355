// Randomised checks of the suffix automaton against brute force, for runs under sanitizers.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "check.h"
#include "draft/frozen_automaton.h"
#include "draft/index_file.h"
#include "draft/suffix_automaton.h"

// Allocations of the live index that still succeed; negative for no limit.
static long g_reallocs_left = -1;

extern "C" void* __real_realloc(void* p, size_t bytes);
extern "C" void* __wrap_realloc(void* p, size_t bytes) {
  if (g_reallocs_left == 0) return nullptr;
  if (g_reallocs_left > 0) --g_reallocs_left;
  return __real_realloc(p, bytes);
}

namespace {

using maglio::Evidence;
using maglio::FrozenAutomaton;
using maglio::FrozenCursor;
using maglio::kOnce;
using maglio::pack_count;
using maglio::SuffixAutomaton;
using maglio::unpack_count;
using maglio::weigh;
using Tokens = std::vector<int32_t>;

std::mt19937& rng() {
  static std::mt19937 generator(20260101);
  return generator;
}

int32_t below(size_t n) { return static_cast<int32_t>(rng()() % n); }

Tokens random_stream(size_t n, int32_t alphabet) {
  Tokens out;
  while (out.size() < n) {
    if (out.size() > 8 && below(10) == 0) {
      const size_t start = below(out.size() - 4);
      const size_t stop = std::min(out.size(), start + 1 + below(20));
      for (size_t i = start; i < stop; ++i) out.push_back(out[i]);
    } else {
      out.push_back(below(alphabet));
    }
  }
  out.resize(n);
  return out;
}

Tokens fibonacci_stream(size_t n) {
  Tokens a{0}, b{0, 1};
  while (b.size() < n) {
    Tokens longer = b;
    longer.insert(longer.end(), a.begin(), a.end());
    a = std::move(b);
    b = std::move(longer);
  }
  b.resize(n);
  return b;
}

std::vector<Tokens> streams(size_t n) {
  std::vector<Tokens> out;
  for (const int32_t alphabet : {2, 5, 31, 150000}) out.push_back(random_stream(n, alphabet));
  out.push_back(Tokens(n, std::numeric_limits<int32_t>::max()));
  out.push_back(fibonacci_stream(n));
  Tokens periodic(n), fan;
  for (size_t i = 0; i < n; ++i) periodic[i] = static_cast<int32_t>(i % 7);
  out.push_back(periodic);
  // One context with very many continuations, split again and again.
  for (size_t i = 0; fan.size() + 3 <= n; ++i) {
    fan.push_back(below(3));
    fan.push_back(7);
    fan.push_back(static_cast<int32_t>(100 + i));
  }
  out.push_back(fan);
  return out;
}

// Length of the longest common suffix of a[..i] and b[..j].
int32_t common_suffix(const Tokens& a, int32_t i, const Tokens& b, int32_t j) {
  int32_t length = 0;
  while (length <= i && length <= j && a[i - length] == b[j - length]) ++length;
  return length;
}

// Longest suffix of t[0..last] that also ends before `last`.
int32_t slow_match(const Tokens& t, int32_t last) {
  int32_t best = 0;
  for (int32_t j = 0; j < last; ++j) best = std::max(best, common_suffix(t, j, t, last));
  return best;
}

void the_match_is_exact_and_the_draft_follows_a_true_earlier_occurrence() {
  for (const Tokens& t : streams(300)) {
    SuffixAutomaton index;
    for (int32_t i = 0; i < static_cast<int32_t>(t.size()); ++i) {
      index.append(t[i]);
      const int32_t match = index.match_length();
      CHECK(match == slow_match(t, i));
      if (i % 16 == 0) CHECK(index.check().empty());
      int32_t draft[40];
      CHECK(index.draft(40, draft) == (match > 0 ? 40u : 0u));
      const int32_t end = index.match_end();
      CHECK(end < i && (end >= 0) == (match > 0));
      if (match == 0) continue;
      CHECK(common_suffix(t, end, t, i) >= match);
      for (int32_t k = 0; k < 40; ++k) CHECK(draft[k] == t[end + 1 + k % (i - end)]);
    }
    CHECK(index.check().empty());
  }
}

// How often `context` occurs in t[0..last), and with `next` after it in t[0..last].
std::pair<int64_t, int64_t> slow_counts(const Tokens& t, int32_t last, const Tokens& context,
                                        int32_t next) {
  std::pair<int64_t, int64_t> counts{0, 0};
  const int32_t length = static_cast<int32_t>(context.size());
  for (int32_t i = 0; i + length <= last; ++i) {
    if (!std::equal(context.begin(), context.end(), t.begin() + i)) continue;
    ++counts.first;
    counts.second += t[i + length] == next;
  }
  return counts;
}

void evidence_is_what_counting_the_contexts_gives() {
  for (const Tokens& t : streams(200)) {
    SuffixAutomaton index;
    for (int32_t i = 0; i < static_cast<int32_t>(t.size()); ++i) {
      index.append(t[i]);
      if (below(3) != 0) continue;  // so that counts lag behind the structure
      int32_t draft[20];
      Evidence evidence[20];
      CHECK(index.draft_in_place(20, draft, evidence) % 20 == 0);
      const size_t count = index.draft(20, draft, evidence);
      if (count == 0) continue;
      Tokens context(t.begin() + i + 1 - index.match_length(), t.begin() + i + 1);
      for (size_t k = 0; k < count; ++k) {
        const auto [contexts, followed] = slow_counts(t, i, context, draft[k]);
        const bool known = context.size() < SuffixAutomaton::kCounted && followed > 0;
        CHECK(evidence[k] == (known ? weigh(followed, contexts) : kOnce));
        context.push_back(draft[k]);
      }
    }
    CHECK(index.check().empty());
  }
}

void a_small_count_keeps_four_significant_bits() {
  for (int32_t count = 0; count < 100000; ++count) {
    int32_t kept = count;
    for (int shift = 0; kept >> shift > 0; ++shift) {
      if (kept >> shift < 16) {
        kept = kept >> shift << shift;
        break;
      }
    }
    CHECK(unpack_count(pack_count(count)) == kept);
  }
  CHECK(unpack_count(pack_count(std::numeric_limits<int32_t>::max())) == int64_t{15} << 27);
  for (int byte = 1; byte < 256; ++byte) {
    CHECK(unpack_count(static_cast<uint8_t>(byte)) > unpack_count(static_cast<uint8_t>(byte - 1)));
  }
}

void a_full_index_restarts_and_stays_sound() {
  for (const Tokens& t : streams(400)) {
    SuffixAutomaton index(37);
    Tokens kept;
    for (const int32_t token : t) {
      if (kept.size() == 37) kept.erase(kept.begin(), kept.end() - 37 / 4);
      kept.push_back(token);
      index.append(token);
      CHECK(index.indexed_tokens() == static_cast<int32_t>(kept.size()));
      CHECK(std::equal(kept.begin(), kept.end(), index.tokens()));
      CHECK(index.match_length() == slow_match(kept, index.indexed_tokens() - 1));
    }
    CHECK(index.check().empty());
  }
}

// Appends until the stream ends or memory does; says whether it did not.
bool survives(SuffixAutomaton* index, const Tokens& t, long reallocs) {
  g_reallocs_left = reallocs;
  bool survived = true;
  try {
    for (const int32_t token : t) index->append(token);
  } catch (const std::bad_alloc&) {
    survived = false;
  }
  g_reallocs_left = -1;
  return survived;
}

void a_failed_append_poisons_wherever_it_fails() {
  const Tokens t = streams(2000).back();
  for (long allowed = 0;; ++allowed) {
    SuffixAutomaton index(1500);
    const bool survived = survives(&index, t, allowed);
    CHECK(index.poisoned() == !survived);
    if (survived) {
      CHECK(allowed > 20);
      return;
    }
    for (int i = 0; i < 3; ++i) {
      int32_t draft[4];
      CHECK(index.match_length() == 0 && index.draft(4, draft) == 0);
      index.append(1);
    }
    CHECK(index.check().empty());
  }
}

void a_cursor_finds_the_longest_match_with_a_continuation() {
  for (const Tokens& document : streams(120)) {
    const auto index = FrozenAutomaton::build(document.data(), document.size());
    CHECK(index->check().empty());
    FrozenCursor cursor(index);
    Tokens stream;
    for (int i = 0; i < 300; ++i) {
      const int32_t at = below(document.size());
      for (int32_t k = 0; k <= below(9); ++k) {
        stream.push_back(document[(at + k) % document.size()]);
        cursor.advance(stream.back());
      }
      int32_t best = 0;
      for (int32_t j = 0; j + 1 < static_cast<int32_t>(document.size()); ++j) {
        best = std::max(
            best, common_suffix(document, j, stream, static_cast<int32_t>(stream.size()) - 1));
      }
      CHECK(cursor.match_length() == best);
      Tokens draft(16);
      draft.resize(cursor.draft(16, draft.data()));
      CHECK(draft.empty() == (best == 0));
      Tokens copied(stream.end() - best, stream.end());
      copied.insert(copied.end(), draft.begin(), draft.end());
      CHECK(std::search(document.begin(), document.end(), copied.begin(), copied.end()) !=
                document.end() ||
            best == 0);
    }
  }
}

void use(const std::shared_ptr<const FrozenAutomaton>& index, const Tokens& document) {
  FrozenCursor cursor(index);
  Tokens draft(document.size() + 2);
  std::vector<Evidence> evidence(draft.size());
  for (int round = 0; round < 2; ++round) {
    for (const int32_t token : document) {
      cursor.advance(token);
      CHECK(cursor.draft(draft.size(), draft.data(), evidence.data()) <= document.size());
      CHECK(cursor.draft_in_place(draft.size(), draft.data(), evidence.data()) <= document.size());
      CHECK(cursor.match_length() >= 0);
    }
  }
}

void a_hostile_body_is_refused_or_harmless() {
  const int32_t extremes[] = {
      -1, 0, 1, 77, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()};
  int accepted = 0;
  for (const Tokens& document : streams(40)) {
    const auto index = FrozenAutomaton::build(document.data(), document.size());
    const size_t words = index->sizes().body_words();
    for (int trial = 0; trial < 3000; ++trial) {
      // An allocation of the exact size, so that a sanitizer sees every step outside.
      const auto body =
          std::make_shared<std::vector<int32_t>>(index->body(), index->body() + words);
      for (int k = 0; k <= below(3); ++k) {
        const int32_t value = below(2) ? extremes[below(std::size(extremes))] : below(90);
        (*body)[below(words)] = value;
      }
      const auto hostile =
          std::make_shared<const FrozenAutomaton>(index->sizes(), body->data(), body);
      if (!hostile->check().empty()) continue;
      ++accepted;
      use(hostile, document);
    }
  }
  CHECK(accepted > 100);
}

// As a mapped file may become under a reader.
void a_body_that_changes_after_its_check_ends_every_walk() {
  const int32_t extremes[] = {
      -1, 0, 1, 77, std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()};
  for (const Tokens& document : streams(40)) {
    const auto index = FrozenAutomaton::build(document.data(), document.size());
    const size_t words = index->sizes().body_words();
    for (int trial = 0; trial < 1000; ++trial) {
      const auto body =
          std::make_shared<std::vector<int32_t>>(index->body(), index->body() + words);
      const auto changing =
          std::make_shared<const FrozenAutomaton>(index->sizes(), body->data(), body);
      FrozenCursor cursor(changing);
      Tokens draft(document.size() + 2);
      std::vector<Evidence> evidence(draft.size());
      for (const int32_t token : document) {
        const int32_t value = below(2) ? extremes[below(std::size(extremes))] : below(90);
        (*body)[below(words)] = value;
        cursor.advance(token);
        CHECK(cursor.draft(draft.size(), draft.data(), evidence.data()) <= document.size());
        CHECK(cursor.draft_in_place(draft.size(), draft.data(), evidence.data()) <=
              document.size());
        CHECK(cursor.match_length() >= 0);
      }
    }
  }
}

// Replaces a file that may be mapped.
void write_file(const FrozenAutomaton& index, const std::string& path, const char* fingerprint) {
  ::unlink(path.c_str());
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);
  maglio::write_index(index, file, fingerprint);
  ::close(file);
}

void a_damaged_file_is_refused() {
  const std::string path = "automaton_test." + std::to_string(::getpid()) + ".idx";
  const Tokens document = random_stream(60, 5);
  const auto index = FrozenAutomaton::build(document.data(), document.size());
  write_file(*index, path, "tokenizer");
  const maglio::OpenedIndex opened = maglio::open_index(path, nullptr);
  CHECK(opened.fingerprint == "tokenizer");
  CHECK(std::memcmp(opened.index->body(), index->body(), index->memory_bytes()) == 0);
  use(opened.index, document);

  std::ifstream in(path, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  for (int trial = 0; trial < 1000; ++trial) {
    std::string bad = good;
    if (below(2)) bad.resize(below(good.size()));
    if (!bad.empty()) bad[below(bad.size())] ^= static_cast<char>(1 << below(8));
    // Not in place: the first mapping is still open.
    ::unlink(path.c_str());
    std::ofstream(path, std::ios::binary) << bad;
    bool refused = false;
    try {
      maglio::open_index(path, nullptr);
    } catch (const maglio::IndexFileError& error) {
      refused = std::strstr(error.what(), path.c_str()) != nullptr;
    }
    CHECK(refused);
  }
  ::unlink(path.c_str());
}

// A mapping of pages that are gone would end the program.
void a_mapped_file_that_is_written_to_is_not_read() {
  const std::string path = "automaton_test.mapped." + std::to_string(::getpid()) + ".idx";
  const Tokens document = random_stream(20000, 5);
  const auto index = FrozenAutomaton::build(document.data(), document.size());
  const Tokens stream(document.begin() + 7, document.begin() + 40);
  write_file(*index, path, "");
  const maglio::OpenedIndex mapped = maglio::open_index(path, nullptr, 0);
  FrozenCursor cursor(mapped.index);
  cursor.advance(stream.data(), stream.size());
  int32_t draft[8];
  CHECK(cursor.draft(8, draft) == 8 && draft[0] == document[40]);

  write_file(*index, path, "");  // another file by that name
  CHECK(cursor.draft(8, draft) == 8);
  FrozenCursor doomed(maglio::open_index(path, nullptr, 0).index);
  doomed.advance(stream.data(), stream.size());
  CHECK(::truncate(path.c_str(), 100) == 0);
  int refused = 0;
  const auto refuses = [&](const auto& use) {
    try {
      use();
    } catch (const maglio::IndexFileError& error) {
      refused += std::strstr(error.what(), path.c_str()) != nullptr;
    }
  };
  maglio::Evidence evidence[8];
  refuses([&] { doomed.draft(8, draft); });
  refuses([&] { doomed.draft(8, draft, evidence); });
  refuses([&] { doomed.advance(1); });
  refuses([&] { static_cast<void>(doomed.match_length()); });
  CHECK(refused == 4);
  ::unlink(path.c_str());
}

}  // namespace

int main() {
  the_match_is_exact_and_the_draft_follows_a_true_earlier_occurrence();
  evidence_is_what_counting_the_contexts_gives();
  a_small_count_keeps_four_significant_bits();
  a_full_index_restarts_and_stays_sound();
  a_failed_append_poisons_wherever_it_fails();
  a_cursor_finds_the_longest_match_with_a_continuation();
  a_hostile_body_is_refused_or_harmless();
  a_body_that_changes_after_its_check_ends_every_walk();
  a_damaged_file_is_refused();
  a_mapped_file_that_is_written_to_is_not_read();
  std::puts("automaton: ok");
  return 0;
}
