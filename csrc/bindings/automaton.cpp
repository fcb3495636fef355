#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <system_error>
#include <vector>

#include "bindings.h"
#include "draft/frozen_automaton.h"
#include "draft/index_file.h"
#include "draft/suffix_automaton.h"
#include "guarded.h"

namespace nb = nanobind;
using namespace nb::literals;
using maglio::FrozenAutomaton;
using maglio::FrozenCursor;
using maglio::SuffixAutomaton;

namespace {

using bindings::draft;
using bindings::getter;
using bindings::Guarded;
using Tokens = nb::ndarray<const int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Files may hold, and paths may be, anything: what is not UTF-8 is shown as replacement characters.
nb::object text(const std::string& s) {
  PyObject* decoded = PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace");
  if (decoded == nullptr) throw nb::python_error();
  return nb::steal(decoded);
}

using Live = Guarded<SuffixAutomaton>;
using Cursor = Guarded<FrozenCursor>;

using WeighedDraft = nb::typed<nb::tuple, nb::typed<nb::list, int>, nb::bytes>;

WeighedDraft weighed(const std::vector<int32_t>& tokens,
                     const std::vector<maglio::Evidence>& evidence, size_t count) {
  nb::typed<nb::list, int> out;
  for (size_t i = 0; i < count; ++i) out.append(tokens[i]);
  return nb::make_tuple(out, nb::bytes(evidence.data(), count));
}

// Counting a whole prompt takes a while; a step's few tokens are not worth giving up the GIL.
constexpr int32_t kQuick = 64;

// Calls a member function of the index that drafts with evidence.
template <typename Work>
WeighedDraft weighed_live_draft(Live& self, size_t limit, Work draft) {
  std::vector<int32_t> tokens(limit);
  std::vector<maglio::Evidence> evidence(limit);
  const auto work = [&](SuffixAutomaton& index) {
    return draft(index, limit, tokens.data(), evidence.data());
  };
  const bool quick =
      self.read([](const SuffixAutomaton& index) { return index.uncounted_tokens() <= kQuick; });
  size_t count = 0;
  if (quick) {
    const std::lock_guard<std::mutex> lock(self.mutex);
    count = work(self.value);
  } else {
    count = self.release_gil(work);
  }
  return weighed(tokens, evidence, count);
}

WeighedDraft live_draft(Live& self, size_t limit) {
  return weighed_live_draft(self, limit, [](SuffixAutomaton& index, auto... arguments) {
    return index.draft(arguments...);
  });
}

WeighedDraft live_draft_in_place(Live& self, size_t limit) {
  return weighed_live_draft(self, limit, [](SuffixAutomaton& index, auto... arguments) {
    return index.draft_in_place(arguments...);
  });
}

WeighedDraft weighed_cursor_draft(const Cursor& self, size_t limit) {
  std::vector<int32_t> tokens(limit);
  std::vector<maglio::Evidence> evidence(limit);
  const size_t count = self.read([&](const FrozenCursor& cursor) {
    return cursor.draft(limit, tokens.data(), evidence.data());
  });
  return weighed(tokens, evidence, count);
}

WeighedDraft cursor_draft_in_place(const Cursor& self, size_t limit) {
  std::vector<int32_t> tokens(limit);
  std::vector<maglio::Evidence> evidence(limit);
  const size_t count = self.read([&](const FrozenCursor& cursor) {
    return cursor.draft_in_place(limit, tokens.data(), evidence.data());
  });
  return weighed(tokens, evidence, count);
}

// Immutable, so it needs no lock.
struct Frozen {
  std::shared_ptr<const FrozenAutomaton> index;
  std::string fingerprint;
};

Frozen build(const Tokens& tokens) {
  const nb::gil_scoped_release release;
  return Frozen{FrozenAutomaton::build(tokens.data(), tokens.shape(0)), ""};
}

Frozen open(const std::filesystem::path& path, const std::optional<std::string>& fingerprint) {
  const nb::gil_scoped_release release;
  maglio::OpenedIndex opened =
      maglio::open_index(path.string(), fingerprint ? &*fingerprint : nullptr);
  return Frozen{std::move(opened.index), std::move(opened.fingerprint)};
}

void write(const Frozen& self, int descriptor, const std::string& fingerprint) {
  try {
    const nb::gil_scoped_release release;
    maglio::write_index(*self.index, descriptor, fingerprint);
  } catch (const std::system_error& error) {
    errno = error.code().value();
    PyErr_SetFromErrno(PyExc_OSError);
    throw nb::python_error();
  }
}

void translate_index_file_error(const std::exception_ptr& exception, void*) {
  try {
    std::rethrow_exception(exception);
  } catch (const maglio::IndexFileError& error) {
    const nb::object type = nb::module_::import_("maglio.errors").attr("IndexFileError");
    PyErr_SetObject(type.ptr(), text(error.what()).ptr());
  }
}

void bind_live(nb::module_& m) {
  nb::class_<Live>(m, "SuffixAutomaton", "A live index of a token stream.")
      .def(nb::init<int32_t>(), nb::kw_only(),
           "token_cap"_a = static_cast<int32_t>(SuffixAutomaton::kDefaultTokenCap),
           "A full index restarts from the last quarter of its ``token_cap`` tokens.")
      .def(
          "append",
          [](Live& self, int32_t token) {
            const std::lock_guard<std::mutex> lock(self.mutex);
            self.value.append(token);
          },
          "token"_a, "Add one token. ``ValueError`` if negative; ``MemoryError`` poisons.")
      .def(
          "extend",
          [](Live& self, const Tokens& tokens) {
            self.release_gil(
                [&](SuffixAutomaton& index) { index.extend(tokens.data(), tokens.shape(0)); });
          },
          "tokens"_a, "Add an int32 array of tokens.")
      .def_prop_ro("match_length", getter(&SuffixAutomaton::match_length),
                   "Tokens in the longest suffix that also occurs earlier.")
      .def_prop_ro("match_end", getter(&SuffixAutomaton::match_end),
                   "Where the occurrence that is followed ends, in what is indexed; -1 for none.")
      .def("draft", &draft<SuffixAutomaton>, "limit"_a,
           "At most ``limit`` tokens that followed the latest earlier occurrence.")
      .def("weighed_draft", &live_draft, "limit"_a,
           "The same, and the evidence for each token as bytes, see ``evidence.h``.")
      .def("weighed_draft_in_place", &live_draft_in_place, "limit"_a,
           "The same from where a copy left off, see ``place.h``; none where nothing is expected.")
      .def_prop_ro(
          "place_agreed",
          [](const Live& self) {
            return self.read([](const SuffixAutomaton& index) { return index.place().agreed(); });
          },
          "Tokens that agree up to where a copy left off.")
      .def(
          "freeze",
          [](Live& self) { return Frozen{self.release_gil(&FrozenAutomaton::freeze), ""}; },
          "A compact, immutable index of the tokens indexed now.")
      .def("check", getter(&SuffixAutomaton::check),
           "What is wrong with the structure; empty if nothing.")
      .def_prop_ro("poisoned", getter(&SuffixAutomaton::poisoned),
                   "Whether an append failed; the index then answers 0 for ever.")
      .def_prop_ro("total_tokens", getter(&SuffixAutomaton::total_tokens), "Tokens ever added.")
      .def_prop_ro("indexed_tokens", getter(&SuffixAutomaton::indexed_tokens),
                   "Tokens that matches can reach.")
      .def_prop_ro("states", getter(&SuffixAutomaton::state_count))
      .def_prop_ro("transitions", getter(&SuffixAutomaton::transition_count))
      .def_prop_ro("memory_bytes", getter(&SuffixAutomaton::memory_bytes), "Bytes reserved.");
}

void bind_frozen(nb::module_& m) {
  nb::class_<Frozen>(m, "FrozenAutomaton", "An immutable index of a document.")
      .def(
          "__init__", [](Frozen* self, const Tokens& tokens) { new (self) Frozen(build(tokens)); },
          "tokens"_a, "Index an int32 array of tokens.")
      .def_static("open", &open, "path"_a, "fingerprint"_a = nb::none(),
                  nb::sig("def open(path: str | os.PathLike[str], fingerprint: str | None = None) "
                          "-> FrozenAutomaton"),
                  "Open an index file. ``IndexFileError`` if it is damaged, foreign, or has "
                  "another fingerprint than the one given.")
      .def("write", &write, "descriptor"_a, nb::kw_only(), "fingerprint"_a,
           "Write an index file into an open file; ``fingerprint`` names the tokenizer. "
           "``OSError`` if it cannot be written.")
      .def(
          "cursor", [](const Frozen& self) { return new Cursor(self.index); },
          "A new cursor, which keeps the index alive.")
      .def(
          "check", [](const Frozen& self) { return self.index->check(); },
          "What is wrong with the structure; empty if nothing.")
      .def("__len__", [](const Frozen& self) { return self.index->sizes().tokens; })
      .def_prop_ro(
          "fingerprint", [](const Frozen& self) { return text(self.fingerprint); },
          nb::sig("def fingerprint(self) -> str"), "The opened file's; empty if built in memory.")
      .def_prop_ro(
          "max_token", [](const Frozen& self) { return self.index->max_token(); },
          "The largest id of the document; -1 if it is empty.")
      .def_prop_ro("states", [](const Frozen& self) { return self.index->sizes().states; })
      .def_prop_ro("transitions", [](const Frozen& self) { return self.index->sizes().edges; })
      .def_prop_ro(
          "memory_bytes", [](const Frozen& self) { return self.index->memory_bytes(); },
          "Bytes of the index, or of its share of the file.");

  nb::class_<Cursor>(m, "FrozenCursor", "Where one stream stands in a document.")
      .def(
          "advance",
          [](Cursor& self, int32_t token) {
            const std::lock_guard<std::mutex> lock(self.mutex);
            self.value.advance(token);
          },
          "token"_a, "Take note of the stream's next token.")
      .def(
          "advance_many",
          [](Cursor& self, const Tokens& tokens) {
            self.release_gil(
                [&](FrozenCursor& cursor) { cursor.advance(tokens.data(), tokens.shape(0)); });
          },
          "tokens"_a, "Take note of an int32 array of tokens.")
      .def_prop_ro("match_length", getter(&FrozenCursor::match_length),
                   "Tokens in the longest suffix that the document continues.")
      .def("draft", &draft<FrozenCursor>, "limit"_a,
           "At most ``limit`` tokens that follow the match in the document.")
      .def("weighed_draft", &weighed_cursor_draft, "limit"_a,
           "The same, and the evidence for each token as bytes, see ``evidence.h``.")
      .def("weighed_draft_in_place", &cursor_draft_in_place, "limit"_a,
           "The same from where a copy left off, see ``place.h``; none where nothing is expected.")
      .def_prop_ro(
          "place_agreed",
          [](const Cursor& self) {
            return self.read([](const FrozenCursor& cursor) { return cursor.place().agreed(); });
          },
          "Tokens that agree up to where a copy left off.");
}

}  // namespace

void bind_automaton(nb::module_& m) {
  nb::register_exception_translator(&translate_index_file_error);
  bind_live(m);
  bind_frozen(m);
}
