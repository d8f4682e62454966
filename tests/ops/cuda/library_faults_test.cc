// A call of cuDNN that fails is an error that names the call and the convolution, and never a
// slower engine: each call in turn fails, of the real library, asked for a GPU that is described.
#include <doctest/doctest.h>

#include <string>

#include "brim/base/cuda/cudnn.cuh"
#include "brim/base/cuda/error.h"
#include "brim/ops/cuda/engine.cuh"
#include "brim/ops/cuda/failed_for.h"
#include "brim/ops/cuda/without.h"
#include "brim/tests/support/cudnn_skip.h"
#include "brim/tests/support/described_gpu.h"

using namespace brim;
using cuda::Cudnn;
using testing::kDescribedGpu;

namespace {

/// The library's own, but for one call.
struct Fault {
  static inline const Cudnn* real = nullptr;
  static inline std::string function;
  static inline int64_t left = 0;  // calls until then
  static inline cudnnStatus_t status = CUDNN_STATUS_SUCCESS;

  static bool is_now(const char* name) { return function == name && left-- == 0; }

  static cudnnStatus_t create(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* made) {
    return is_now("cudnnBackendCreateDescriptor") ? status : real->create_descriptor(type, made);
  }
  static cudnnStatus_t set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                           cudnnBackendAttributeType_t type, int64_t count, const void* values) {
    return is_now("cudnnBackendSetAttribute")
               ? status
               : real->set_attribute(descriptor, name, type, count, values);
  }
  static cudnnStatus_t get(const cudnnBackendDescriptor_t descriptor,
                           cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                           int64_t most, int64_t* count, void* values) {
    return is_now("cudnnBackendGetAttribute")
               ? status
               : real->get_attribute(descriptor, name, type, most, count, values);
  }
  static cudnnStatus_t finalize(cudnnBackendDescriptor_t descriptor) {
    return is_now("cudnnBackendFinalize") ? status : real->finalize(descriptor);
  }
  static cudnnStatus_t execute(cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t) {
    return status;
  }
};

/// Until it ends, call number `at` of the function gives `status`.
class FaultScope {
 public:
  FaultScope(const std::string& function, int64_t at, cudnnStatus_t status) {
    Fault::real = &cuda::cudnn();
    Fault::function = function;
    Fault::left = at;
    Fault::status = status;
    table_ = *Fault::real;
    table_.create_descriptor = Fault::create;
    table_.set_attribute = Fault::set;
    table_.get_attribute = Fault::get;
    table_.finalize = Fault::finalize;
    if (function == "cudnnBackendExecute") table_.execute = Fault::execute;
    cuda::set_cudnn(&table_);
  }
  ~FaultScope() { cuda::set_cudnn(nullptr); }
  FaultScope(const FaultScope&) = delete;
  FaultScope& operator=(const FaultScope&) = delete;
  /// Whether the function was called as often.
  bool happened() const { return Fault::left < 0; }

 private:
  Cudnn table_;
};

cuda::ConvolutionCall sample() {
  const Shape x{8, 56, 56, 64}, weight{128, 3, 3, 64};
  const Conv2dOptions options{.stride = 2, .padding = 1};
  return {.shape = ConvShape(x, weight, conv2d_shape(x, weight, options), options),
          .dtype = Dtype::float16,
          .bias = true};
}

}  // namespace

TEST_CASE("cudnn: a fault at any call is an error that names it and the convolution") {
  if (testing::skipped_without_cudnn()) return;
  const EngineChoice choice = cuda::choose_engine(sample(), kDescribedGpu);
  for (const char* function : {"cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute",
                               "cudnnBackendGetAttribute", "cudnnBackendFinalize"}) {
    CAPTURE(function);
    int64_t calls = 0;
    for (bool happened = true; happened; ++calls) {
      CAPTURE(calls);
      // A lost context, a part of the library that cannot be loaded, a bug of brim's.
      const cudnnStatus_t statuses[] = {CUDNN_STATUS_INTERNAL_ERROR,
                                        CUDNN_STATUS_SUBLIBRARY_LOADING_FAILED,
                                        CUDNN_STATUS_BAD_PARAM};
      const FaultScope fault(function, calls, statuses[calls % 3]);
      try {
        const EngineChoice chosen = cuda::choose_engine(sample(), kDescribedGpu);
        happened = fault.happened();
        CHECK_FALSE(happened);
        CHECK(chosen == choice);
      } catch (const DeviceError& error) {
        const std::string text = error.what();
        CHECK_MESSAGE(text.starts_with(fmt::format("cudnn: {} failed: CUDNN_STATUS_", function)),
                      text);
        CHECK_MESSAGE(text.ends_with(", for " + cuda::name_of(sample())), text);
      }
    }
    CHECK(calls > 10);
  }
}

TEST_CASE("cudnn: what an engine does not support is left to the next") {
  if (testing::skipped_without_cudnn()) return;
  int64_t others = 0;
  const EngineChoice choice = cuda::choose_engine(sample(), kDescribedGpu);
  for (int64_t call = 0;; ++call) {
    const FaultScope fault("cudnnBackendFinalize", call, CUDNN_STATUS_NOT_SUPPORTED_SHAPE);
    try {
      others += cuda::choose_engine(sample(), kDescribedGpu) != choice;
      if (!fault.happened()) break;
    } catch (const cuda::UnsupportedError& error) {  // of a graph, which is the same for all
      CHECK(std::string(error.what()).find("CUDNN_STATUS_NOT_SUPPORTED") != std::string::npos);
    }
  }
  CHECK(others > 0);
}

TEST_CASE("cudnn: a convolution that fails as it is enqueued throws") {
  if (testing::skipped_without_cudnn()) return;
  const cuda::CudnnDescriptor device = cuda::device_properties(kDescribedGpu);
  const cuda::ConvolutionGraph graph(sample());
  const std::vector<cuda::Engine> engines = cuda::find_engines(sample(), graph, device, 1);
  REQUIRE(engines.size() == 1);
  std::vector<char> bytes(64);
  const cuda::ConvolutionBuffers buffers{bytes.data(), bytes.data(), bytes.data(), bytes.data(),
                                         bytes.data()};
  const FaultScope fault("cudnnBackendExecute", 0, CUDNN_STATUS_EXECUTION_FAILED);
  CHECK_THROWS_WITH_AS(cuda::execute(sample(), nullptr, engines.front(), buffers),
                       doctest::Contains("cudnn: cudnnBackendExecute failed: CUDNN_STATUS_"),
                       DeviceError);
}

TEST_CASE(
    "cuda: a failure says what it was for, and lacking something is an answer to a choice alone") {
  const auto named = [] { return "a product"; };
  const auto lacks = [] { raise<cuda::UnsupportedError>("cudnn", "has none"); };
  CHECK_THROWS_WITH_AS(cuda::choose_for(named, lacks), "cudnn: has none, for a product",
                       cuda::UnsupportedError);
  try {
    cuda::run_for(named, lacks);
    FAIL_CHECK("nothing was thrown");
  } catch (const cuda::UnsupportedError&) {
    FAIL_CHECK("what was chosen has to run");
  } catch (const DeviceError& error) {
    CHECK(std::string(error.what()) == "cudnn: has none, for a product");
  }
  const auto wants_memory = [] { raise<cuda::AllocationError>("cudnn", "got none"); };
  CHECK_THROWS_AS(cuda::choose_for(named, wants_memory), cuda::AllocationError);
  CHECK_THROWS_AS(cuda::run_for(named, wants_memory), cuda::AllocationError);
  CHECK(cuda::run_for(named, [] { return 3; }) == 3);
}

TEST_CASE("cuda: only a library that has nothing is remembered as having nothing") {
  cuda::Without<int> without;
  int asked = 0;
  const auto fails = [&] {
    ++asked;
    raise<DeviceError>("cudnn", "failed");
  };
  CHECK_THROWS_AS(without.finds(1, fails), DeviceError);
  CHECK_THROWS_AS(without.finds(1, fails), DeviceError);
  CHECK(asked == 2);
  const auto lacks = [&] {
    ++asked;
    raise<cuda::UnsupportedError>("cudnn", "has none");
  };
  CHECK_FALSE(without.finds(1, lacks));
  CHECK_FALSE(without.finds(1, lacks));
  CHECK(asked == 3);
  CHECK(without.finds(2, [] {}));
}
