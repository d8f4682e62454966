#include "brim/shrink/sparse_weights.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "brim/memory/staging_scope.h"

namespace brim::shrink {
namespace {

constexpr const char* kTag = "sparse weights";
constexpr const char *kRows = ".crow_indices", *kColumns = ".col_indices", *kValues = ".values";

/// A matrix without its zeros.
struct CompressedRows {
  Tensor rows, columns, values;
  int64_t bytes() const {
    return (rows.numel() + columns.numel()) * size_of(Dtype::int32) +
           values.numel() * size_of(values.dtype());
  }
};

int64_t bytes_of(const Tensor& tensor) { return tensor.numel() * size_of(tensor.dtype()); }

// Calls `body` with an unsigned type of the size of the tensor's elements: values are moved as
// bits, and a negative zero is one to keep.
template <class Body>
void visit_bits(const Tensor& tensor, const Body& body) {
  switch (size_of(tensor.dtype())) {
    case 1:
      return body.template operator()<uint8_t>();
    case 2:
      return body.template operator()<uint16_t>();
    case 4:
      return body.template operator()<uint32_t>();
    default:
      return body.template operator()<uint64_t>();
  }
}

template <class Bits>
std::vector<Bits> bits_of(const Tensor& tensor) {
  std::vector<Bits> bits(static_cast<size_t>(tensor.numel()));
  const Tensor values = contiguous(tensor);
  if (!bits.empty()) std::memcpy(bits.data(), values.data(), bits.size() * sizeof(Bits));
  return bits;
}

template <class Bits>
Tensor tensor_of(const std::vector<Bits>& bits, Dtype dtype) {
  Tensor tensor = empty({static_cast<int64_t>(bits.size())}, {.dtype = dtype});
  if (!bits.empty()) std::memcpy(tensor.data(), bits.data(), bits.size() * sizeof(Bits));
  tensor.storage()->note_write(kTag);
  return tensor;
}

template <class Bits>
CompressedRows compress(const Tensor& dense) {
  const std::vector<Bits> bits = bits_of<Bits>(dense);
  const size_t columns = bits.size() / static_cast<size_t>(dense.size(0));
  std::vector<int32_t> starts{0}, places;
  std::vector<Bits> values;
  for (size_t i = 0; i < bits.size(); ++i) {
    if (bits[i] != 0) {
      places.push_back(static_cast<int32_t>(i % columns));
      values.push_back(bits[i]);
    }
    if (i % columns == columns - 1) starts.push_back(static_cast<int32_t>(values.size()));
  }
  return {tensor_of(starts, Dtype::int32), tensor_of(places, Dtype::int32),
          tensor_of(values, dense.dtype())};
}

// Nothing where that is no smaller, and for what is no matrix of numbers.
std::optional<CompressedRows> compressed_if_smaller(const Tensor& dense) {
  const bool is_matrix = dense.dim() >= 2 && is_floating(dense.dtype()) && dense.numel() > 0 &&
                         dense.numel() <= std::numeric_limits<int32_t>::max();
  if (!is_matrix) return {};
  CompressedRows rows;
  visit_bits(dense, [&]<class Bits>() { rows = compress<Bits>(dense); });
  if (rows.bytes() >= bytes_of(dense)) return {};
  return rows;
}

struct Stored {
  std::vector<io::NamedBytes> entries;
  SparseReport report;
};

Stored store(nn::Module& model) {
  Stored stored;
  int64_t zeros = 0, elements = 0;
  model.for_each_slot([&](const std::string& name, const nn::Module::Slot& slot) {
    const Tensor dense = nn::in_file_layout(*slot.tensor);
    stored.report.dense_bytes += bytes_of(dense);
    if (slot.is_parameter) {
      elements += dense.numel();
      visit_bits(dense,
                 [&]<class Bits>() { zeros += std::ranges::count(bits_of<Bits>(dense), 0u); });
    }
    const std::optional<CompressedRows> rows = compressed_if_smaller(dense);
    if (!rows) {
      stored.entries.push_back({name, dense});
      stored.report.stored_bytes += bytes_of(dense);
      return;
    }
    stored.entries.push_back({name + kRows, rows->rows});
    stored.entries.push_back({name + kColumns, rows->columns});
    stored.entries.push_back({name + kValues, rows->values});
    stored.report.stored_bytes += rows->bytes();
    ++stored.report.compressed;
  });
  stored.report.zeros =
      static_cast<double>(zeros) / static_cast<double>(std::max<int64_t>(elements, 1));
  return stored;
}

/// Reads one file into a model.
class Reader {
 public:
  explicit Reader(const std::string& path) : file_(path) {}

  void read(const std::string& name, const Tensor& to) {
    const Tensor dense = nn::in_file_layout(to);
    if (file_.find(name) != nullptr) {
      take(name);
      expect<FileError>(file_.info(name).shape == dense.shape(), kTag,
                        "'{}': tensor '{}' is {}, but {} in the model", file_.path(), name,
                        file_.info(name).shape, dense.shape());
      require(file_.info(name).dtype == dense.dtype(), name, "is of another type");
      return file_.read_into(name, dense);
    }
    visit_bits(dense, [&]<class Bits>() { read_rows<Bits>(name, dense); });
  }

  void require_all_taken() const {
    for (const io::TensorInfo& tensor : file_.tensors())
      expect<FileError>(
          taken_.contains(tensor.name) || tensor.name.ends_with("num_batches_tracked"), kTag,
          "'{}': the model has no '{}'", file_.path(), tensor.name);
  }

 private:
  void take(const std::string& name) { taken_.insert(name); }
  void require(bool valid, const std::string& name, const char* why) const {
    expect<FileError>(valid, kTag, "'{}': '{}' {}", file_.path(), name, why);
  }

  Tensor part(const std::string& name, Dtype dtype) {
    require(file_.find(name) != nullptr, name, "is missing");
    take(name);
    require(file_.info(name).dtype == dtype, name, "is of another type");
    require(file_.info(name).shape.size() == 1, name, "is no list");
    return file_.read(name);
  }

  template <class Bits>
  void read_rows(const std::string& name, const Tensor& dense) {
    require(dense.dim() >= 2, name, "is missing");
    const auto rows = part(name + kRows, Dtype::int32).to_vector<int32_t>();
    const auto columns = part(name + kColumns, Dtype::int32).to_vector<int32_t>();
    const auto values = bits_of<Bits>(part(name + kValues, dense.dtype()));
    const auto height = static_cast<size_t>(dense.size(0));
    const int64_t width = dense.numel() / std::max<int64_t>(dense.size(0), 1);
    require(rows.size() == height + 1 && rows.front() == 0 && std::ranges::is_sorted(rows) &&
                static_cast<size_t>(rows.back()) == values.size() &&
                columns.size() == values.size(),
            name + kRows, "does not fit the model, or its columns and values");
    std::vector<Bits> bits(static_cast<size_t>(dense.numel()));
    for (size_t row = 0; row < height; ++row)
      for (int64_t i = rows[row], before = -1; i < rows[row + 1]; ++i) {
        const int64_t column = columns[static_cast<size_t>(i)];
        require(column > before && column < width, name + kColumns, "is out of order or range");
        bits[row * static_cast<size_t>(width) + static_cast<size_t>(column)] =
            values[static_cast<size_t>(i)];
        before = column;
      }
    copy_into(dense, tensor_of(bits, dense.dtype()).view_as(dense.shape()));
  }

  io::SafetensorsFile file_;
  std::set<std::string> taken_;
};

}  // namespace

SparseReport write_sparse_weights(nn::Module& model, const std::string& path,
                                  const nn::ModelCard& card) {
  model.require_values();
  memory::StagingScope staging;
  const Stored stored = store(model);
  io::write_safetensors(path, stored.entries, nn::to_metadata(card));
  return stored.report;
}

SparseReport sparse_report(nn::Module& model) {
  model.require_values();
  memory::StagingScope staging;
  return store(model).report;
}

void read_sparse_weights(nn::Module& model, const std::string& path) {
  memory::StagingScope staging;
  Reader reader(path);
  model.for_each_slot([&](const std::string& name, const nn::Module::Slot& slot) {
    reader.read(name, *slot.tensor);
  });
  reader.require_all_taken();
}

}  // namespace brim::shrink
