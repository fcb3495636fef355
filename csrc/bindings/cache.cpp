#include "engine/cache.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/unordered_map.h>

#include "bindings.h"
#include "engine/cache_file.h"
#include "engine/errors.h"
#include "unlocked.h"

namespace nb = nanobind;
using namespace nb::literals;
using maglio::Cache;

namespace {

void raise(const char* name, const std::exception& error) {
  const nb::object type = nb::module_::import_("maglio.errors").attr(name);
  PyErr_SetString(type.ptr(), error.what());
}

void translate_engine_error(const std::exception_ptr& exception, void*) {
  try {
    std::rethrow_exception(exception);
  } catch (const maglio::InvalidInput& error) {
    raise("InvalidArgumentError", error);
  } catch (const maglio::ContextFull& error) {
    raise("ContextFullError", error);
  } catch (const maglio::OutOfPages& error) {
    raise("OutOfMemoryError", error);
  } catch (const maglio::CacheFileError& error) {
    raise("CacheFileError", error);
  } catch (const maglio::ThreadsRefused& error) {
    raise("MaglioError", error);
  }
}

size_t bytes(const Cache& cache) {
  size_t sum = 0;
  for (const auto& [page, size] : cache.pages()) sum += size;
  return sum;
}

// What may wait for a forward lets other Python threads run meanwhile.
using Waiting = nb::call_guard<bindings::Unlocked>;

}  // namespace

void bind_cache(nb::module_& m) {
  nb::register_exception_translator(&translate_engine_error);
  nb::class_<Cache>(m, "Cache", "One sequence inside an engine: a table of shared pages.")
      .def_prop_ro("length", &Cache::length, "Positions held.")
      .def_prop_ro("floor", &Cache::floor, "The shortest length that truncate() reaches exactly.")
      .def_prop_ro("n_ctx", &Cache::n_ctx, "Most positions.")
      .def_prop_ro("bytes", &bytes, Waiting(), "Bytes of its pages, shared ones too.")
      .def_prop_ro("pages", &Cache::pages, Waiting(),
                   "Bytes of each of its pages by where it lies, shared ones too.")
      .def("truncate", &Cache::truncate, "length"_a, Waiting(),
           "Keep the first ``length`` positions, and return how many are kept.")
      .def("fork", &Cache::fork, "length"_a, Waiting(),
           "An independent cache of the first ``length`` positions, on the same pages.")
      .def("keep", &Cache::keep, Waiting(),
           "Remember about where it is, for truncate() to come back to.")
      .def("reserve", &Cache::reserve, "n"_a, Waiting(),
           "Take the pages of keys and values for ``n`` more positions; no position changes.");
}
