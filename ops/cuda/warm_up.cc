#include "brim/ops/cuda/warm_up.h"

#include <memory>

#include "brim/base/cuda/driver.h"
#include "brim/base/cuda/error.h"
#include "brim/base/cuda/last_op.h"
#include "brim/base/cuda/stream.h"
#include "brim/ops/cuda/convolution.h"
#include "brim/ops/cuda/gemm.h"

namespace brim::cuda {
namespace {

constexpr int64_t kSide = 64;  // of the matrices; channels of the convolutions
constexpr int64_t kImages = 2, kPixels = 16;

/// From the driver, since the account comes after the context.
class Bytes {
 public:
  Bytes(std::shared_ptr<Driver> driver, int64_t bytes) : driver_(std::move(driver)) {
    if (bytes > 0) check(driver_->allocate(&address_, bytes), "cudaMalloc");
  }
  ~Bytes() {
    if (address_ != 0) driver_->free(address_);  // which waits for the GPU's work
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  void* data() const { return reinterpret_cast<void*>(address_); }

 private:
  std::shared_ptr<Driver> driver_;
  uintptr_t address_ = 0;
};

Gemm product_of(Dtype dtype) { return {.dtype = dtype, .m = kSide, .n = kSide, .k = kSide}; }

void multiply(Device device, Dtype dtype, const std::shared_ptr<Driver>& driver) {
  const GemmPlan& plan = find_plan(product_of(dtype), device);
  const int64_t bytes = kSide * kSide * size_of(dtype);
  const Bytes a(driver, bytes), b(driver, bytes), y(driver, bytes),
      workspace(driver, workspace_bytes(plan));
  const Stream& stream = default_stream(device);
  run(plan, {.a = a.data(), .b = b.data(), .y = y.data(), .workspace = workspace.data()},
      stream.handle());
  last_op = {"matmul, to warm up"};
  stream.synchronize();
}

void convolve(Device device, const ConvolutionCall& call, const std::shared_ptr<Driver>& driver) {
  const Convolution& convolution = find_convolution(call, device);
  const int64_t image_bytes = kImages * kPixels * kPixels * kSide * size_of(call.dtype),
                weight_bytes = kSide * 3 * 3 * kSide * size_of(call.dtype);
  const ConvPass pass = call.pass;
  const Bytes images(driver, image_bytes), others(driver, image_bytes),
      weight(driver, weight_bytes), workspace(driver, workspace_bytes(convolution));
  const bool of_weight = pass == ConvPass::backward_weight;
  run(convolution, {.first = images.data(),
                    .second = of_weight ? others.data() : weight.data(),
                    .result = of_weight ? weight.data() : others.data(),
                    .workspace = workspace.data()});
  last_op = {"conv2d, to warm up"};
  default_stream(device).synchronize();
}

}  // namespace

void warm_up(Device device, std::span<const Dtype> dtypes) {
  const std::shared_ptr<Driver> driver = driver_of(device);
  const Shape images{kImages, kPixels, kPixels, kSide}, weight{kSide, 3, 3, kSide};
  for (Dtype dtype : dtypes) {
    if (has_plan(product_of(dtype), device)) multiply(device, dtype, driver);
    for (ConvPass pass : {ConvPass::forward, ConvPass::backward_data, ConvPass::backward_weight}) {
      const ConvolutionCall call{
          .shape = {images, weight, images, {.padding = 1}}, .pass = pass, .dtype = dtype};
      if (has_convolution(call, device)) convolve(device, call, driver);
    }
  }
}

}  // namespace brim::cuda
