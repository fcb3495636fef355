#include "engine/engine.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "bindings.h"
#include "engine/cache_file.h"
#include "unlocked.h"

namespace nb = nanobind;
using namespace nb::literals;
using maglio::Cache;
using maglio::Engine;
using maglio::InvalidInput;
using maglio::Model;
using maglio::RowPool;
using maglio::Segment;

namespace {

using Ids = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using NewIds = nb::ndarray<nb::numpy, int32_t, nb::ndim<1>, nb::c_contig>;
using Logits = nb::ndarray<nb::numpy, float, nb::ndim<2>, nb::c_contig>;
using Batch = nb::typed<nb::sequence, nb::typed<nb::tuple, nb::object, nb::object, int>>;
using Rows = nb::typed<nb::list, Logits>;

// How a message shows a value.
std::string shown(nb::handle value) {
  const nb::object text = nb::steal(PyObject_ASCII(value.ptr()));
  if (!text.is_valid()) throw nb::python_error();
  return nb::cast<std::string>(text).substr(0, 80);
}

[[noreturn]] void refuse_token(size_t index, nb::handle value, int n_vocab) {
  throw InvalidInput("tokens[" + std::to_string(index) + "] is " + shown(value) +
                     ", must be an integer from 0 to " + std::to_string(n_vocab - 1));
}

// Integers (numpy's count, truth values do not) that fit; whether they are in the vocabulary is
// the engine's to say.
int32_t to_id(nb::handle value, size_t index, int n_vocab) {
  PyObject* p = value.ptr();
  int overflow = 0;
  long long id = -1;
  if (PyLong_CheckExact(p)) {
    id = PyLong_AsLongLongAndOverflow(p, &overflow);
  } else {
    if (PyBool_Check(p) || !PyIndex_Check(p)) refuse_token(index, value, n_vocab);
    const nb::object number = nb::steal(PyNumber_Index(p));
    if (!number.is_valid()) {
      PyErr_Clear();
      refuse_token(index, value, n_vocab);
    }
    id = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  }
  if (overflow != 0 || id < 0 || id >= n_vocab) refuse_token(index, value, n_vocab);
  return static_cast<int32_t>(id);
}

// An item of what PySequence_Fast gave: by a function, as the stable ABI has no macros.
nb::object item_at(nb::handle items, Py_ssize_t i) {
  nb::object item = nb::steal(PySequence_GetItem(items.ptr(), i));
  if (!item.is_valid()) throw nb::python_error();
  return item;
}

// A batch as the core takes it. Holds what the Python objects may lose while other threads run.
class ParsedBatch {
 public:
  ParsedBatch(nb::handle batch, int n_vocab) : n_vocab_(n_vocab) {
    const nb::object items = nb::steal(PySequence_Fast(batch.ptr(), "a batch is a sequence"));
    if (!items.is_valid()) throw nb::python_error();
    segments_.reserve(static_cast<size_t>(PySequence_Size(items.ptr())));
    // The size is asked for anew each time: converting a token may run code that shortens a list.
    for (Py_ssize_t i = 0; i < PySequence_Size(items.ptr()); ++i) {
      const nb::object item = item_at(items, i);
      const int count = static_cast<int>(PySequence_Size(items.ptr()));
      try {
        add(item);
      } catch (const InvalidInput& error) {
        throw InvalidInput(maglio::of_segment(static_cast<int>(i), count) + error.what());
      }
    }
    // Growing moved the ids; now they stay.
    const int32_t* next = ids_.data();
    for (Segment& segment : segments_) {
      segment.tokens = next;
      next += segment.n;
    }
  }

  const std::vector<Segment>& segments() const { return segments_; }
  size_t n_logits() const { return n_logits_; }

 private:
  void add(nb::handle item) {
    if (!PyTuple_Check(item.ptr()) || PyTuple_Size(item.ptr()) != 3) {
      throw InvalidInput("a segment is " + shown(item) +
                         ", must be a tuple of cache, tokens and n_logits");
    }
    const nb::handle cache = PyTuple_GetItem(item.ptr(), 0);
    const nb::handle tokens = PyTuple_GetItem(item.ptr(), 1);
    const nb::handle n_logits = PyTuple_GetItem(item.ptr(), 2);
    Segment segment{};
    if (!nb::isinstance<Cache>(cache)) {
      throw InvalidInput("cache is " + shown(cache) + ", must be a cache of this engine");
    }
    segment.cache = nb::inst_ptr<Cache>(cache);
    held_.push_back(nb::borrow(cache));
    const size_t before = ids_.size();
    add_tokens(tokens);
    segment.n = static_cast<int>(ids_.size() - before);
    if (!nb::try_cast(n_logits, segment.n_logits) || segment.n_logits < 0 ||
        segment.n_logits > segment.n) {
      throw InvalidInput("n_logits is " + shown(n_logits) + ", must be an integer from 0 to " +
                         std::to_string(segment.n));
    }
    n_logits_ += static_cast<size_t>(segment.n_logits);
    segments_.push_back(segment);
  }

  void add_tokens(nb::handle tokens) {
    Ids array;
    if (!PyList_CheckExact(tokens.ptr()) && !PyTuple_CheckExact(tokens.ptr()) &&
        nb::try_cast(tokens, array, false)) {
      check_count(array.shape(0));
      ids_.insert(ids_.end(), array.data(), array.data() + array.shape(0));
      return;
    }
    const nb::object items = nb::steal(PySequence_Fast(tokens.ptr(), ""));
    if (!items.is_valid()) {
      PyErr_Clear();
      throw InvalidInput("tokens is " + shown(tokens) + ", must be a sequence of token ids");
    }
    check_count(static_cast<size_t>(PySequence_Size(items.ptr())));
    for (Py_ssize_t i = 0; i < PySequence_Size(items.ptr()); ++i) {
      const nb::object item = item_at(items, i);
      ids_.push_back(to_id(item, static_cast<size_t>(i), n_vocab_));
    }
  }

  // Before they are converted: what is far too long should be refused at once.
  void check_count(size_t count) const {
    if (count <= static_cast<size_t>(Engine::kMaxRows)) return;
    throw InvalidInput("tokens has " + std::to_string(count) +
                       " token ids; a forward takes at most " + std::to_string(Engine::kMaxRows) +
                       ", all segments together");
  }

  const int n_vocab_;
  std::vector<nb::object> held_;
  std::vector<int32_t> ids_;
  std::vector<Segment> segments_;
  size_t n_logits_ = 0;
};

// Memory for rows that goes back to the engine's pool when Python drops the last view of it.
struct Loan {
  std::shared_ptr<RowPool> pool;
  RowPool::Buffer buffer;
};

nb::capsule borrow_rows(const std::shared_ptr<RowPool>& pool, size_t floats, float*& data) {
  auto loan = std::make_unique<Loan>(Loan{pool, pool->take(floats)});
  data = loan->buffer.data.get();
  return nb::capsule(loan.release(), [](void* p) noexcept {
    std::unique_ptr<Loan> ended(static_cast<Loan*>(p));
    ended->pool->give_back(std::move(ended->buffer));
  });
}

Rows forward(Engine& engine, const Batch& batch) {
  const size_t n_vocab = static_cast<size_t>(engine.model().spec.n_vocab);
  const ParsedBatch parsed(batch, engine.model().spec.n_vocab);
  const std::vector<Segment>& segments = parsed.segments();
  float* logits = nullptr;
  const nb::capsule owner = borrow_rows(engine.rows(), parsed.n_logits() * n_vocab, logits);
  {
    const bindings::Unlocked unlocked;
    engine.forward(segments.data(), static_cast<int>(segments.size()), logits);
  }
  Rows out;
  for (const Segment& segment : segments) {
    const size_t rows = static_cast<size_t>(segment.n_logits);
    out.append(Logits(logits, {rows, n_vocab}, owner));
    logits += rows * n_vocab;
  }
  return out;
}

maglio::SavedCache to_saved(const nb::bytes& owner, const Ids& tokens,
                            std::shared_ptr<Cache> cache) {
  maglio::SavedCache saved;
  if (owner.size() != saved.owner.size()) {
    throw InvalidInput("an owner has " + std::to_string(owner.size()) + " bytes, must have " +
                       std::to_string(saved.owner.size()));
  }
  std::memcpy(saved.owner.data(), owner.c_str(), owner.size());
  saved.tokens.assign(tokens.data(), tokens.data() + tokens.shape(0));
  if (!cache) throw InvalidInput("a cache is None, must be a cache of this engine");
  saved.cache = std::move(cache);
  return saved;
}

void write_caches(const Engine& engine, uint64_t key,
                  const std::vector<std::tuple<nb::bytes, Ids, std::shared_ptr<Cache>>>& caches,
                  int descriptor) {
  std::vector<maglio::SavedCache> saved;
  for (const auto& [owner, tokens, cache] : caches) {
    saved.push_back(to_saved(owner, tokens, cache));
  }
  const bindings::Unlocked unlocked;
  maglio::write_caches(engine, key, saved, descriptor);
}

NewIds to_array(const std::vector<int32_t>& tokens) {
  int32_t* copy = new int32_t[tokens.size()];
  std::copy(tokens.begin(), tokens.end(), copy);
  nb::capsule owner(copy, [](void* p) noexcept { delete[] static_cast<int32_t*>(p); });
  return NewIds(copy, {tokens.size()}, owner);
}

std::vector<std::tuple<nb::bytes, NewIds, std::shared_ptr<Cache>>> read_caches(
    const Engine& engine, uint64_t key, int n_ctx, size_t max_bytes, int descriptor) {
  std::vector<maglio::SavedCache> saved;
  {
    const bindings::Unlocked unlocked;
    saved = maglio::read_caches(engine, key, n_ctx, max_bytes, descriptor);
  }
  std::vector<std::tuple<nb::bytes, NewIds, std::shared_ptr<Cache>>> out;
  for (maglio::SavedCache& each : saved) {
    out.emplace_back(nb::bytes(each.owner.data(), each.owner.size()), to_array(each.tokens),
                     std::move(each.cache));
  }
  return out;
}

std::vector<std::string> isa_names() {
  std::vector<std::string> names;
  for (const maglio::Kernels* kernels : maglio::available_kernels()) names.push_back(kernels->isa);
  return names;
}

std::shared_ptr<Engine> make_engine(std::shared_ptr<const Model> model, const std::string& isa,
                                    int threads, maglio::CacheType cache_type,
                                    size_t cache_budget) {
  const maglio::Kernels* kernels = maglio::find_kernels(isa.c_str());
  if (kernels == nullptr) throw std::invalid_argument("no such instruction set: " + isa);
  if (threads < 1) throw std::invalid_argument("threads must be at least 1");
  return std::make_shared<Engine>(std::move(model), *kernels, threads, cache_type, cache_budget);
}

}  // namespace

void bind_engine(nb::module_& m) {
  m.def("isa_names", &isa_names, "Instruction sets this machine can run, best first.");

  nb::enum_<maglio::CacheType>(m, "CacheType", "What keys and values are kept as.")
      .value("F16", maglio::CacheType::kF16)
      .value("Q8_0", maglio::CacheType::kQ8_0);

  nb::class_<Engine>(m, "Engine", "The forward pass of one model.")
      .def(nb::new_(&make_engine), "model"_a, "isa"_a, "threads"_a, "cache_type"_a,
           "cache_budget"_a,
           "Caches use at most ``cache_budget`` bytes at a time; 0 stands for no limit.")
      .def_ro_static("MAX_ROWS", &Engine::kMaxRows)
      .def_prop_ro("isa", &Engine::isa)
      .def_prop_ro("threads", &Engine::threads)
      .def_prop_ro(
          "cache_bytes", [](const Engine& engine) { return engine.cache_bytes(); },
          "Bytes of all pages in use.")
      .def_prop_ro(
          "page_bytes", [](const Engine& engine) { return engine.pages().page_bytes(); },
          "Bytes of a page.")
      .def_prop_ro(
          "state_bytes", [](const Engine& engine) { return engine.recurrent().state_bytes(); },
          "Bytes of the states of all recurrent layers at a position.")
      .def_prop_ro(
          "row_bytes", [](const Engine& engine) { return engine.recurrent().row_bytes(); },
          "Bytes of what a row feeds into all recurrent layers.")
      .def("new_cache", &Engine::new_cache, "n_ctx"_a)
      .def("write_caches", &write_caches, "key"_a, "caches"_a, "descriptor"_a,
           nb::sig("def write_caches(self, key: int, "
                   "caches: collections.abc.Sequence[tuple[bytes, object, object]], "
                   "descriptor: int) -> None"),
           "Writes caches to an open, empty file, each with 32 bytes that say whose it is and the "
           "tokens that are in it.")
      .def("read_caches", &read_caches, "key"_a, "n_ctx"_a, "max_bytes"_a, "descriptor"_a,
           "The first caches of a file that ``write_caches`` wrote with this key, of no more than "
           "``max_bytes`` of pages; raises CacheFileError.")
      .def("forward", &forward, "batch"_a,
           "Append segments (cache, tokens, n_logits) to their caches; returns the rows of each.");
}
