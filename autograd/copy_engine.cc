#include "brim/autograd/copy_engine.h"

#include <cstring>

#include "brim/autograd/cuda_copies.h"

namespace brim::autograd {
namespace {

class ProcessorCopies final : public CopyEngine {
 public:
  uint64_t begin(void* to, const void* from, int64_t bytes, CopyDirection) override {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return 0;
  }
  void finish(uint64_t) noexcept override {}
};

// Of addresses without bytes.
class NoCopies final : public CopyEngine {
 public:
  uint64_t begin(void*, const void*, int64_t, CopyDirection) override { return 0; }
  void finish(uint64_t) noexcept override {}
};

}  // namespace

std::unique_ptr<CopyEngine> copy_engine(Device device) {
  if (device.is_meta()) return std::make_unique<NoCopies>();
  if (device.is_cuda()) return std::make_unique<CudaCopies>(device);
  return std::make_unique<ProcessorCopies>();
}

}  // namespace brim::autograd
