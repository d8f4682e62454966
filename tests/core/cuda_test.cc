// What a tensor itself does on a GPU. The table has the kernels in every build with the toolkit.
#include <doctest/doctest.h>

#include "brim/base/cuda/devices.h"
#include "brim/core/kernels.h"
#include "brim/tests/support/cuda_skip.h"

using namespace brim;

namespace {

// Says so and returns true where there is no GPU.
Tensor on_cpu(const Tensor& tensor) { return convert_to(tensor, {.dtype = tensor.dtype()}); }

}  // namespace

TEST_CASE(
    "cuda: a build with the toolkit has the kernels of tensors in the table, for all dtypes") {
  for (int i = 0; i < kDtypes; ++i)
    for (const char* name : {kernel::copy.name, kernel::fill.name, kernel::arange.name,
                             kernel::uniform.name, kernel::normal.name})
      CHECK_MESSAGE(has_kernel(name, DeviceType::cuda, static_cast<Dtype>(i)) == cuda::built(),
                    name, " for ", to_string(static_cast<Dtype>(i)));
  for (Dtype dtype : {Dtype::float32, Dtype::float64})
    CHECK(has_kernel(kernel::accumulate.name, DeviceType::cuda, dtype) == cuda::built());
}

TEST_CASE("cuda: elements go there and back, converted, through any strides") {
  if (testing::skipped_on_cuda("copies")) return;
  Device device = Device::cuda();
  Tensor x = from_vector<double>({1, -2.5, 3, 4, 5, 6}, {2, 3});
  for (int i = 0; i < kDtypes; ++i) {
    auto dtype = static_cast<Dtype>(i);
    Tensor there = convert_to(x, {.dtype = dtype, .device = device});
    Tensor converted = convert_to(convert_to(x, {.device = device}), {dtype, device});
    auto expected = convert_to(x, {.dtype = dtype}).to_vector<double>();
    CHECK(there.to_vector<double>() == expected);
    CHECK(converted.to_vector<double>() == expected);
  }
  Tensor there = convert_to(x, {.dtype = Dtype::float64, .device = device});
  Tensor transposed(there.storage(), {{3, 2}, {1, 3}, 0, Dtype::float64});
  CHECK(transposed.to_vector<double>() == std::vector<double>{1, 4, -2.5, 5, 3, 6});
  CHECK(to_string(there).find("-2.5") != std::string::npos);
}

TEST_CASE("cuda: filling, counting, drawing and adding give what the CPU gives") {
  if (testing::skipped_on_cuda("fills")) return;
  TensorOptions there{.dtype = Dtype::float32, .device = Device::cuda()};
  CHECK(full({1000}, 3, there).to_vector<float>() == std::vector<float>(1000, 3));
  CHECK(arange(70'000, {Dtype::int64, there.device}).to_vector<int64_t>() ==
        arange(70'000).to_vector<int64_t>());
  CHECK(uniform({70'000}, -1, 2, RandomKey{5}, there).to_vector<float>() ==
        uniform({70'000}, -1, 2, RandomKey{5}).to_vector<float>());
  CHECK(normal({70'000}, 1, RandomKey{5}, there).to_vector<float>() ==
        normal({70'000}, 1, RandomKey{5}).to_vector<float>());
  Tensor sum = full({1000}, 1, there);
  accumulate_into(sum, full({1000}, 0.5, there));
  CHECK(on_cpu(sum).to_vector<float>() == std::vector<float>(1000, 1.5));
}
