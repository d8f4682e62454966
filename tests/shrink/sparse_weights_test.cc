#include "brim/shrink/sparse_weights.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "brim/nn/models/registry.h"
#include "brim/shrink/weight_masks.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using testing::contains;
using testing::error_text;

namespace {

std::vector<float> values_of(nn::Module& model) {
  std::vector<float> all;
  model.for_each_slot([&](const std::string&, const nn::Module::Slot& slot) {
    const std::vector<float> values = slot.tensor->to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  });
  return all;
}

}  // namespace

TEST_CASE("sparse weights: come back bit for bit, from a file as small as the report says") {
  testing::TempFolder folder;
  const std::string path = folder.path() + "/a";
  for (Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::bfloat16}) {
    CAPTURE(to_string(dtype));
    auto model = nn::make_model("resnet20", {.classes = 10, .dtype = dtype});
    shrink::WeightMasks masks(*model, {.amount = 0.9});
    const shrink::SparseReport report = shrink::write_sparse_weights(*model, path);
    CHECK(report.compressed > 10);
    CHECK(report.zeros > 0.85);
    CHECK(report.stored_bytes < 0.35 * static_cast<double>(report.dense_bytes));
    const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
    CHECK(size > report.stored_bytes);
    CHECK(size < report.stored_bytes + 30'000);  // the header
    CHECK(shrink::sparse_report(*model).stored_bytes == report.stored_bytes);
    auto again = nn::make_model("resnet20", {.classes = 10, .seed = 8, .dtype = dtype});
    shrink::read_sparse_weights(*again, path);
    CHECK(values_of(*again) == values_of(*model));
  }
}

TEST_CASE("sparse weights: where rows would be no smaller they are stored as they are") {
  testing::TempFolder folder;
  auto model = nn::make_model("resnet20", {.classes = 10});
  shrink::WeightMasks masks(*model, {.amount = 0.4});  // 4 bytes of index for 4 of value
  const shrink::SparseReport report =
      shrink::write_sparse_weights(*model, folder.path() + "/a", {.model = "resnet20"});
  CHECK(report.compressed < 10);
  CHECK(report.stored_bytes <= report.dense_bytes);
}

TEST_CASE("sparse weights: negative zeros, a row without values, a model without zeros") {
  testing::TempFolder folder;
  const std::string path = folder.path() + "/a";
  auto model = nn::make_model("resnet20", {.classes = 10});
  const Tensor fc = model->tensor("fc.weight");
  fill(fc, 0);
  Layout layout = fc.layout();
  layout.shape = {1, 1};
  fill(Tensor(fc.storage(), layout), -0.0);
  CHECK(shrink::write_sparse_weights(*model, path).compressed == 1);
  auto again = nn::make_model("resnet20", {.classes = 10, .seed = 8});
  shrink::read_sparse_weights(*again, path);
  CHECK(std::signbit(again->tensor("fc.weight").to_vector<float>()[0]));
  CHECK_FALSE(std::signbit(again->tensor("fc.weight").to_vector<float>()[1]));
}

TEST_CASE("sparse weights: damaged files are refused by name") {
  testing::TempFolder folder;
  const std::string path = folder.path() + "/a", bad = folder.path() + "/bad";
  auto model = nn::make_model("resnet20", {.classes = 10});
  shrink::WeightMasks masks(*model, {.amount = 0.9});
  shrink::write_sparse_weights(*model, path);
  const io::SafetensorsFile file(path);
  // With another tensor in the place of one; undefined: without it.
  auto refusal = [&](const std::string& name, const Tensor& other) {
    std::vector<io::NamedBytes> entries;
    for (const io::TensorInfo& tensor : file.tensors())
      if (tensor.name != name) entries.push_back({tensor.name, file.read(tensor.name)});
    if (other.defined()) entries.push_back({name, other});
    io::write_safetensors(bad, entries);
    auto again = nn::make_model("resnet20", {.classes = 10});
    return error_text<FileError>([&] { shrink::read_sparse_weights(*again, bad); });
  };
  auto changed = [&](const std::string& name, int64_t at, int32_t value) {
    Tensor tensor = file.read(name);
    std::vector<int32_t> values = tensor.to_vector<int32_t>();
    values[static_cast<size_t>(at < 0 ? at + tensor.numel() : at)] = value;
    return from_vector(values, tensor.shape());
  };
  const std::string columns = "layer1.0.conv1.weight.col_indices";
  REQUIRE(file.find(columns) != nullptr);
  const std::string starts = "layer1.0.conv1.weight.crow_indices";
  CHECK(contains(refusal(columns, {}), "'" + columns + "' is missing"));
  CHECK(contains(refusal("fc.bias", {}), "'fc.bias' is missing"));
  CHECK(contains(refusal(columns, changed(columns, 0, -1)), "is out of order or range"));
  CHECK(contains(refusal(columns, changed(columns, 0, 144)), "is out of order or range"));
  CHECK(contains(refusal(starts, changed(starts, 0, 1)), "does not fit the model"));
  CHECK(contains(refusal(starts, changed(starts, -1, 1 << 30)), "does not fit the model"));
  CHECK(contains(refusal(starts, changed(starts, 3, 1 << 30)), "does not fit the model"));
  CHECK(contains(refusal(starts, zeros({3}, {.dtype = Dtype::int32})), "does not fit the model"));
  CHECK(contains(refusal(columns, zeros({3})), "is of another type"));
  CHECK(contains(refusal("more", zeros({3})), "the model has no 'more'"));
  CHECK(contains(refusal("fc.bias", zeros({11})), "tensor 'fc.bias' is [11], but [10]"));
}
