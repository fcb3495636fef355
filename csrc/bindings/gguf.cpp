#include "gguf/gguf.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "bindings.h"
#include "gguf/half.h"
#include "gguf/tensor_type.h"

namespace nb = nanobind;
using maglio::GgufFile;
using maglio::GgufPart;
using maglio::GgufType;
using maglio::GgufValue;
using maglio::TensorType;

namespace {

// Model files are not always valid UTF-8; what is not survives as lone surrogates.
nb::object text(std::string_view s, const char* invalid = "surrogateescape") {
  PyObject* o = PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), invalid);
  if (o == nullptr) throw nb::python_error();
  return nb::steal(o);
}

template <typename T>
T read(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

template <typename T>
nb::object numbers(const GgufPart& part, const GgufValue& value) {
  const uint8_t* p = part.header().data() + value.offset;
  if (!value.is_array) return nb::cast(read<T>(p));
  const size_t n = static_cast<size_t>(value.count);
  T* copy = new T[n];
  if (n > 0) std::memcpy(static_cast<void*>(copy), p, n * sizeof(T));
  nb::capsule owner(copy, [](void* q) noexcept { delete[] static_cast<T*>(q); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(copy, {n}, owner));
}

nb::object strings(const GgufPart& part, const GgufValue& value) {
  const std::vector<std::string_view> items = part.strings(value);
  if (!value.is_array) return text(items.at(0));
  nb::list out;
  for (std::string_view item : items) out.append(text(item));
  return out;
}

nb::object booleans(const GgufPart& part, const GgufValue& value) {
  const uint8_t* p = part.header().data() + value.offset;
  if (!value.is_array) return nb::bool_(*p != 0);
  nb::list out;
  for (uint64_t i = 0; i < value.count; ++i) out.append(nb::bool_(p[i] != 0));
  return out;
}

nb::object convert(const GgufPart& part, const GgufValue& value) {
  switch (value.type) {
    case GgufType::kUint8:
      return numbers<uint8_t>(part, value);
    case GgufType::kInt8:
      return numbers<int8_t>(part, value);
    case GgufType::kUint16:
      return numbers<uint16_t>(part, value);
    case GgufType::kInt16:
      return numbers<int16_t>(part, value);
    case GgufType::kUint32:
      return numbers<uint32_t>(part, value);
    case GgufType::kInt32:
      return numbers<int32_t>(part, value);
    case GgufType::kFloat32:
      return numbers<float>(part, value);
    case GgufType::kUint64:
      return numbers<uint64_t>(part, value);
    case GgufType::kInt64:
      return numbers<int64_t>(part, value);
    case GgufType::kFloat64:
      return numbers<double>(part, value);
    case GgufType::kBool:
      return booleans(part, value);
    case GgufType::kString:
      return strings(part, value);
    case GgufType::kArray:
      break;
  }
  return nb::none();
}

nb::dict metadata(const GgufPart& part) {
  nb::dict out;
  for (const GgufValue& value : part.values()) out[text(value.key)] = convert(part, value);
  return out;
}

nb::object value(const GgufPart& part, std::string_view key, const nb::object& otherwise) {
  for (const GgufValue& value : part.values()) {
    if (value.key == key) return convert(part, value);
  }
  return otherwise;
}

struct TensorInfo {
  nb::object name;
  std::string type;
  bool supported;
  std::vector<uint64_t> shape;
  uint64_t bytes;
};

std::vector<TensorInfo> tensors(const GgufFile& file) {
  std::vector<TensorInfo> out;
  for (const maglio::GgufTensor& t : file.tensors()) {
    out.push_back({text(t.name), maglio::tensor_type_name(t.type),
                   maglio::block_geometry(t.type).values != 0, t.shape, t.bytes});
  }
  return out;
}

void translate_gguf_error(const std::exception_ptr& exception, void* type) {
  try {
    std::rethrow_exception(exception);
  } catch (const maglio::GgufError& error) {
    PyErr_SetObject(static_cast<PyObject*>(type), text(error.what(), "backslashreplace").ptr());
  }
}

}  // namespace

void bind_gguf(nb::module_& m) {
  const nb::exception<maglio::GgufError> type(m, "GgufError", PyExc_ValueError);
  // Tried before the translator of the line above, which fails on a name that is not UTF-8.
  nb::register_exception_translator(&translate_gguf_error, type.ptr());

  nb::class_<TensorInfo>(m, "TensorInfo", "A tensor of a model file.")
      .def_ro("name", &TensorInfo::name)
      .def_ro("type", &TensorInfo::type, "Name of the storage type, such as ``Q4_K``.")
      .def_ro("supported", &TensorInfo::supported, "Whether the engine can read the type.")
      .def_ro("shape", &TensorInfo::shape, "Dimensions, innermost first.")
      .def_ro("bytes", &TensorInfo::bytes, "In the file; 0 if the type is not supported.");
  m.def("tensor_types", &maglio::supported_types, "Names of the types that the engine can read.");

  nb::class_<GgufPart>(m, "GgufPart", "A GGUF file: a whole model, or a part of one.")
      .def(nb::init<int>(), nb::arg("descriptor"), nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro(
          "size", [](const GgufPart& part) { return part.file().size(); }, "Bytes of the file.")
      .def_prop_ro(
          "n_tensors", [](const GgufPart& part) { return part.tensors().size(); },
          "Number of tensors in this part.")
      .def("value", &value, nb::arg("key"), nb::arg("otherwise"), "One value of the metadata.")
      .def("metadata", &metadata, nb::sig("def metadata(self) -> dict[str, object]"),
           "All metadata: numbers, strings, lists of strings and booleans, arrays of numbers.");

  nb::class_<GgufFile>(m, "GgufFile", "The tensors of a model, in one part or several.")
      .def(nb::init<std::vector<std::shared_ptr<const GgufPart>>>(), nb::arg("parts"))
      .def("tensors", &tensors, "The tensor directory, in the order of the parts.")
      .def_prop_ro("identity", &GgufFile::identity,
                   "64 bits of sizes, times and headers of all parts.")
      .def("check_unchanged", &GgufFile::check_unchanged,
           "Raises GgufError when a part was written to since it was opened.");
}
