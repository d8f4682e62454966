// gather and its gradient, one thread an element. An index outside x makes the element NaN and gets
// no gradient: nothing here can throw. In backward each element of dx goes through the index along
// its line, which is as long as the axis of the index: short where one of many is picked.
#include <limits>

#include "brim/core/cuda/compute.cuh"
#include "brim/core/cuda/strided.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/gather.h"

namespace brim::cuda {
namespace {

using kernel::GatherAttributes;

template <class S>
struct Gather {
  const S* x;
  const int64_t* index;
  S* y;
  int64_t size, step;  // of x along the axis
  /// `at`: in y, and in x the first element of the line.
  __device__ void operator()(const Offsets<2>& at) const {
    const int64_t i = index[at.of[0]];
    y[at.of[0]] = i >= 0 && i < size ? x[at.of[1] + i * step]
                                     : round_to<S>(std::numeric_limits<Compute<S>>::quiet_NaN());
  }
};

template <class S>
void gather(const KernelCall& call, const GatherAttributes& by) {
  const View &x = call.in[0], &y = call.out[0];
  Strides lines = x.strides;
  lines[by.axis] = 0;
  for_each_element(call, StridedLoop<2>(y.shape, {y.strides, lines}),
                   Gather<S>{x.as<S>(), call.in[1].as<int64_t>(), y.as<S>(), x.shape[by.axis],
                             x.strides[by.axis]},
                   "gather");
}

/// In double, in the order of the index.
template <class S>
struct GatherBackward {
  int rank, axis;
  int64_t to[Dims::kMax], from[Dims::kMax], steps[Dims::kMax];  // sizes of dx and dy, dy's strides
  const S* dy;
  const int64_t* index;
  S* dx;

  GatherBackward(const KernelCall& call, int axis)
      : rank(call.out[0].shape.size()),
        axis(axis),
        dy(call.in[0].as<S>()),
        index(call.in[1].as<int64_t>()),
        dx(call.out[0].as<S>()) {
    for (int i = 0; i < rank; ++i) {
      to[i] = call.out[0].shape[i];
      from[i] = call.in[0].shape[i];
      steps[i] = call.in[0].strides[i];
    }
  }
  __device__ void operator()(const Offsets<1>& at) const {
    int64_t rest = at.of[0], own = 0, line = 0;
    bool inside = true;  // dy may have fewer lines
    for (int i = rank - 1; i >= 0; --i) {
      const int64_t coordinate = rest % to[i];
      rest /= to[i];
      if (i == axis) {
        own = coordinate;
      } else {
        inside = inside && coordinate < from[i];
        line += coordinate * steps[i];
      }
    }
    dx[at.of[0]] = round_to<S>(inside ? sum_of(line, own) : Compute<S>(0));
  }

 private:
  __device__ Compute<S> sum_of(int64_t line, int64_t own) const {
    double sum = 0;
    for (int64_t k = 0; k < from[axis]; ++k) {
      const int64_t i = line + k * steps[axis];
      if (index[i] == own) sum += static_cast<double>(widen(dy[i]));
    }
    return static_cast<Compute<S>>(sum);
  }
};

template <class S>
void gather_backward(const KernelCall& call, const GatherAttributes& by) {
  for_each_element(call, call.out[0].numel(), GatherBackward<S>(call, by.axis), "gather_backward");
}

template <class S>
void register_for() {
  register_kernel(kernel::gather, DeviceType::cuda, dtype_of<S>, gather<S>);
  register_kernel(kernel::gather_backward, DeviceType::cuda, dtype_of<S>, gather_backward<S>);
}

}  // namespace

void register_gather() {
  register_for<float>();
  register_for<double>();
  register_for<Float16>();
  register_for<BFloat16>();
}

}  // namespace brim::cuda
