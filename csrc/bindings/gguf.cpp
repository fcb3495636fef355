#include "gguf/gguf.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "bindings.h"
#include "gguf/half.h"
#include "gguf/tensor_type.h"

namespace nb = nanobind;
using maglio::GgufFile;
using maglio::GgufType;
using maglio::GgufValue;
using maglio::TensorType;

namespace {

using Bytes = nb::ndarray<const uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

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
nb::object numbers(const GgufFile& file, const GgufValue& value) {
  const uint8_t* p = file.data() + value.offset;
  if (!value.is_array) return nb::cast(read<T>(p));
  const size_t n = static_cast<size_t>(value.count);
  T* copy = new T[n];
  if (n > 0) std::memcpy(static_cast<void*>(copy), p, n * sizeof(T));
  nb::capsule owner(copy, [](void* q) noexcept { delete[] static_cast<T*>(q); });
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(copy, {n}, owner));
}

nb::object strings(const GgufFile& file, const GgufValue& value) {
  const std::vector<std::string_view> items = file.strings(value);
  if (!value.is_array) return text(items.at(0));
  nb::list out;
  for (std::string_view item : items) out.append(text(item));
  return out;
}

nb::object booleans(const GgufFile& file, const GgufValue& value) {
  const uint8_t* p = file.data() + value.offset;
  if (!value.is_array) return nb::bool_(*p != 0);
  nb::list out;
  for (uint64_t i = 0; i < value.count; ++i) out.append(nb::bool_(p[i] != 0));
  return out;
}

nb::object convert(const GgufFile& file, const GgufValue& value) {
  switch (value.type) {
    case GgufType::kUint8:
      return numbers<uint8_t>(file, value);
    case GgufType::kInt8:
      return numbers<int8_t>(file, value);
    case GgufType::kUint16:
      return numbers<uint16_t>(file, value);
    case GgufType::kInt16:
      return numbers<int16_t>(file, value);
    case GgufType::kUint32:
      return numbers<uint32_t>(file, value);
    case GgufType::kInt32:
      return numbers<int32_t>(file, value);
    case GgufType::kFloat32:
      return numbers<float>(file, value);
    case GgufType::kUint64:
      return numbers<uint64_t>(file, value);
    case GgufType::kInt64:
      return numbers<int64_t>(file, value);
    case GgufType::kFloat64:
      return numbers<double>(file, value);
    case GgufType::kBool:
      return booleans(file, value);
    case GgufType::kString:
      return strings(file, value);
    case GgufType::kArray:
      break;
  }
  return nb::none();
}

nb::dict metadata(const GgufFile& file) {
  nb::dict out;
  for (const GgufValue& value : file.values()) out[text(value.key)] = convert(file, value);
  return out;
}

struct TensorInfo {
  nb::object name;
  std::string type;
  bool supported;
  std::vector<uint64_t> shape;
};

std::vector<TensorInfo> tensors(const GgufFile& file) {
  std::vector<TensorInfo> out;
  for (const maglio::GgufTensor& t : file.tensors()) {
    out.push_back({text(t.name), maglio::tensor_type_name(t.type),
                   maglio::block_geometry(t.type).values != 0, t.shape});
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
      .def_ro("shape", &TensorInfo::shape, "Dimensions, innermost first.");

  nb::class_<GgufFile>(m, "GgufFile", "The header of a mapped GGUF file.")
      .def(
          "__init__",
          [](GgufFile* self, const Bytes& bytes) {
            new (self) GgufFile(bytes.data(), bytes.shape(0));
          },
          nb::arg("bytes"), nb::keep_alive<1, 2>())
      .def("metadata", &metadata, nb::sig("def metadata(self) -> dict[str, object]"),
           "All metadata: numbers, strings, lists of strings and booleans, arrays of numbers.")
      .def("tensors", &tensors, "The tensor directory, in file order.");
}
