#include "engine/loader.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "engine/cache.h"
#include "gguf/half.h"

namespace maglio {
namespace {

constexpr uint64_t kMaxDimension = 1 << 20;
constexpr uint64_t kMaxRows = 1 << 30;  // of all matrices of a tensor

// Row r of the result is row order[r] of the file, or zeros where that is negative.
std::vector<int32_t> rows_in(const RowOrder& order) {
  std::vector<int32_t> rows;
  rows.reserve(static_cast<size_t>(order.placed(0)));
  for (int head = 0; head < order.heads; ++head) {
    const int half = order.paired / 2;
    for (int i = 0; i < order.head_dim; ++i) {
      const int within = i >= order.paired ? i : i < half ? 2 * i : 2 * (i - half) + 1;
      rows.push_back(head * order.head_dim + within);
    }
    for (int i = order.head_dim; i < order.width; ++i) rows.push_back(-1);
  }
  return rows;
}

// The rows that `from` names of each of several matrices.
std::vector<int32_t> rows_of_each(const Source& from, int rows, int matrices) {
  std::vector<int32_t> order;
  order.reserve(static_cast<size_t>(rows));
  for (int matrix = 0; matrix < matrices; ++matrix) {
    for (int i = 0; i < rows / matrices; ++i) {
      order.push_back(matrix * from.all_rows + from.first_row + i);
    }
  }
  return order;
}

std::string readable_types() {
  std::string names;
  for (const std::string& type : supported_types()) names += (names.empty() ? "" : ", ") + type;
  return names;
}

const GgufTensor& find(const GgufFile& file, const std::string& name) {
  const GgufTensor* tensor = file.find_tensor(name);
  if (tensor == nullptr) throw GgufError("tensor '" + name + "' is missing");
  if (tensor->bytes == 0) {
    throw GgufError("tensor '" + name + "' has the type " + tensor_type_name(tensor->type) +
                    ", which the native engine does not read; use a file whose tensors are of the "
                    "types " +
                    readable_types());
  }
  return *tensor;
}

struct Shape {
  uint64_t rows, cols;
  uint64_t matrices = 1;  // as many of those

  uint64_t all_rows() const { return matrices * rows; }
  bool operator==(const Shape& other) const {
    return rows == other.rows && cols == other.cols && matrices == other.matrices;
  }
  std::string text() const {
    return (matrices > 1 ? std::to_string(matrices) + " x " : "") + std::to_string(rows) + " x " +
           std::to_string(cols);
  }
};

Shape shape_of(const GgufTensor& tensor) {
  const size_t n = tensor.shape.size();
  const Shape shape{n > 1 ? tensor.shape[1] : 1, tensor.shape[0], n > 2 ? tensor.shape[2] : 1};
  bool more = false;  // than matrices
  for (size_t i = 3; i < n; ++i) more = more || tensor.shape[i] != 1;
  if (more || shape.rows > kMaxDimension || shape.cols > kMaxDimension ||
      shape.matrices > kMaxRows / kMaxDimension) {
    throw GgufError("tensor '" + tensor.name + "' does not have the shape of a matrix");
  }
  return shape;
}

Vector read_floats(const GgufFile& file, const GgufTensor& tensor, int vectors = 1) {
  const Shape shape = shape_of(tensor);
  const auto type = static_cast<TensorType>(tensor.type);
  if (shape.rows != static_cast<uint64_t>(vectors) || shape.matrices != 1 ||
      (type != TensorType::kF32 && type != TensorType::kF16 && type != TensorType::kBF16)) {
    const std::string what = vectors > 1 ? std::to_string(vectors) + " vectors" : "a vector";
    throw GgufError("tensor '" + tensor.name + "' must be " + what + " of F32, F16 or BF16");
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(tensor.bytes));
  file.read(tensor, 0, bytes.data(), bytes.size());
  Vector out(static_cast<size_t>(shape.all_rows() * shape.cols));
  if (type == TensorType::kF32) {
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, bytes.data() + 2 * i, sizeof(bits));
    out[i] = type == TensorType::kF16 ? half_to_float(bits) : bfloat_to_float(bits);
  }
  return out;
}

// A matrix of the right shape, and no memory for it yet.
Matrix without_memory(TensorType type, int rows, int cols) {
  return Matrix(type, rows, cols, nullptr, nullptr);
}

void give_memory(const std::vector<Packing>& packings) {
  for (const Packing& packing : packings) {
    Matrix& matrix = *packing.matrix;
    matrix = Matrix(matrix.type(), matrix.rows(), matrix.cols());
  }
}

}  // namespace

// The visitor that gives weights their shapes, and keeps account of the tensors they come from.
class ModelLoad::Plan {
 public:
  Plan(const GgufFile& file, std::vector<Packing>& packings, std::vector<TableRead>& tables)
      : file_(file), packings_(packings), tables_(tables) {}

  void operator()(const Source& from, Matrix& matrix, int rows, int cols,
                  Presence presence = kRequired, RowOrder order = {}, int matrices = 1) {
    const GgufTensor* tensor = wanted(from, presence);
    if (tensor == nullptr) return;
    const uint64_t n = static_cast<uint64_t>(matrices);
    check_shape(*tensor, {rows_of(from, rows / matrices), static_cast<uint64_t>(cols), n});
    matrix = without_memory(static_cast<TensorType>(tensor->type), order.placed(rows), cols);
    const int together = std::max(1, order.width / kTileRows);
    if (!from.rows.empty()) {
      check_list(from, rows, matrices > 1 || order.heads > 0);
      packings_.push_back({&matrix, tensor, 0, from.rows, together});
    } else if (matrices > 1 && from.all_rows > 0) {
      packings_.push_back({&matrix, tensor, 0, rows_of_each(from, rows, matrices), together});
    } else {
      packings_.push_back({&matrix, tensor, from.first_row, rows_in(order), together});
    }
  }

  void operator()(const Source& from, EmbeddingTable& table, int rows, int cols,
                  Presence presence = kRequired) {
    check_range(from);
    const GgufTensor* tensor = wanted(from, presence);
    if (tensor == nullptr) return;
    check_shape(*tensor, {static_cast<uint64_t>(rows), static_cast<uint64_t>(cols)});
    table = EmbeddingTable(static_cast<TensorType>(tensor->type), rows, cols);
    tables_.push_back({&table, tensor});
  }

  void operator()(const Source& from, Vector& vector, int size, Presence presence = kRequired,
                  RowOrder order = {}, int vectors = 1) {
    check_range(from);
    const GgufTensor* tensor = wanted(from, presence);
    if (tensor == nullptr) return;
    const Vector all = read_floats(file_, *tensor, vectors);
    if (all.size() != rows_of(from, size)) {
      throw GgufError("tensor '" + from.tensor + "' has " + std::to_string(all.size()) +
                      " values, expected " + std::to_string(rows_of(from, size)));
    }
    vector.assign(static_cast<size_t>(padded(order.placed(size))), 0.0f);
    const float* values = all.data() + from.first_row;
    const std::vector<int32_t> rows = rows_in(order);
    if (rows.empty()) std::copy(values, values + size, vector.begin());
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i] >= 0) vector[i] = values[rows[i]];
    }
  }

  void operator()(const Source& from, Taps& taps, int channels, int n_taps) {
    check_range(from);
    const GgufTensor& tensor = *wanted(from, kRequired);
    const Shape shape = shape_of(tensor),
                expected = {rows_of(from, channels), static_cast<uint64_t>(n_taps)};
    if (!(shape == expected)) {
      throw GgufError("tensor '" + from.tensor + "' is " + shape.text() + ", expected " +
                      expected.text());
    }
    const Vector all = read_floats(file_, tensor, shape.rows);
    taps = Taps(channels, n_taps);
    const float* values = all.data() + static_cast<size_t>(from.first_row * n_taps);
    for (int c = 0; c < channels; ++c) {
      for (int t = 0; t < n_taps; ++t) taps.at(c, t) = *values++;
    }
  }

  void check_all_used(const std::set<std::string>& known, const std::string& architecture) const {
    for (const GgufTensor& tensor : file_.tensors()) {
      if (known.count(tensor.name) > 0 || used_.count(tensor.name) > 0) continue;
      throw GgufError("tensor '" + tensor.name + "' is not part of the " + architecture +
                      " models that the native engine knows, so its output would be wrong");
    }
  }

 private:
  const GgufTensor* wanted(const Source& from, Presence presence) {
    if (presence == kAbsent) return nullptr;
    if (presence == kIfPresent && file_.find_tensor(from.tensor) == nullptr) return nullptr;
    used_.insert(from.tensor);
    return &find(file_, from.tensor);
  }

  // Before room is made for it: padding could make a misshapen tensor many times larger.
  static void check_shape(const GgufTensor& tensor, const Shape& expected) {
    const Shape shape = shape_of(tensor);
    if (shape == expected) return;
    throw GgufError("tensor '" + tensor.name + "' is " + shape.text() + ", expected " +
                    expected.text());
  }

  static void check_range(const Source& from) {
    if (!from.rows.empty()) throw std::invalid_argument("'" + from.tensor + "' is no matrix");
  }

  static void check_list(const Source& from, int rows, bool ordered) {
    bool fits = !ordered && from.rows.size() == static_cast<size_t>(rows);
    for (const int32_t row : from.rows) fits = fits && row >= 0 && row < from.all_rows;
    if (!fits) throw std::invalid_argument("listed rows do not fit '" + from.tensor + "'");
  }

  // How many rows the tensor has to have.
  static uint64_t rows_of(const Source& from, int rows) {
    if (!from.rows.empty()) return static_cast<uint64_t>(from.all_rows);
    if (from.all_rows == 0 && from.first_row == 0) return static_cast<uint64_t>(rows);
    if (from.first_row < 0 || from.first_row > from.all_rows - rows) {
      throw std::invalid_argument("a row range lies outside its tensor '" + from.tensor + "'");
    }
    return static_cast<uint64_t>(from.all_rows);
  }

  const GgufFile& file_;
  std::vector<Packing>& packings_;
  std::vector<TableRead>& tables_;
  std::set<std::string> used_;
};

ModelLoad::ModelLoad(std::shared_ptr<const GgufFile> file, const ModelSpec& spec,
                     const std::set<std::string>& known)
    : file_(std::move(file)) {
  const std::string complaint = spec.check();
  if (!complaint.empty()) throw std::invalid_argument(complaint);
  model_ = std::make_shared<Model>(spec);
  Plan plan(*file_, packings_, tables_);
  const auto own = [&](const char* name, auto& weight, auto... shape) {
    const auto found = spec.sources.find(name);
    plan(found == spec.sources.end() ? Source{name} : found->second, weight, shape...);
  };
  const auto of_layer = [&](size_t layer, const char* name, auto& weight, auto... shape) {
    const std::map<std::string, Source>& sources = spec.layers[layer].sources;
    const auto found = sources.find(name);
    Source from = found == sources.end() ? Source{name} : found->second;
    from.tensor = tensor_name(layer, from.tensor);
    plan(from, weight, shape...);
  };
  Model::visit(*model_, own, of_layer);
  plan.check_all_used(known, spec.architecture);
}

size_t ModelLoad::cache_bytes(int positions, CacheType type) const {
  const size_t pages = static_cast<size_t>((positions + kPagePositions - 1) / kPagePositions);
  return pages * PageLayout(model_->spec, type).page_bytes() +
         2 * RecurrentLayout(model_->spec).state_bytes();
}

void ModelLoad::read_tables() const {
  for (const TableRead& read : tables_) {
    read.table->allocate();
    file_->read(*read.tensor, 0, read.table->data(), read.table->bytes());
  }
}

std::shared_ptr<const Model> ModelLoad::read(int threads, const Progress& progress) {
  read_tables();
  give_memory(packings_);
  pack_all(*file_, packings_, threads, progress);
  file_->check_unchanged();
  return model_;
}

std::shared_ptr<const Model> ModelLoad::map(int descriptor) {
  map_kept(packings_, kept_key(*file_, packings_), descriptor);
  read_tables();
  file_->check_unchanged();
  model_->is_mapped = true;
  return model_;
}

uint64_t ModelLoad::kept_bytes() const { return maglio::kept_bytes(packings_); }

void ModelLoad::keep(int descriptor, const Progress& progress) const {
  write_kept(packings_, kept_key(*file_, packings_), descriptor, progress);
}

Vector load_vector(const GgufFile& file, const std::string& name) {
  return read_floats(file, find(file, name));
}

Matrix load_matrix(const GgufFile& file, const std::string& name, int threads) {
  const GgufTensor& tensor = find(file, name);
  const Shape shape = shape_of(tensor);
  Matrix matrix = without_memory(static_cast<TensorType>(tensor.type),
                                 static_cast<int>(shape.all_rows()), static_cast<int>(shape.cols));
  const std::vector<Packing> packings = {{&matrix, &tensor, 0, {}}};
  give_memory(packings);
  pack_all(file, packings, threads, {});
  return matrix;
}

}  // namespace maglio
