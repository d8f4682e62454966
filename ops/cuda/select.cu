// Ops that choose or place elements: where, pad, dropout; and normalize.
#include <array>
#include <cmath>

#include "brim/core/cuda/strided.cuh"
#include "brim/core/cuda/vector.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/dropout.h"
#include "brim/ops/normalize.h"
#include "brim/ops/pad.h"
#include "brim/ops/where.h"

namespace brim::cuda {
namespace {

/// a or b may be null, and then 0.
template <class T>
struct Choose {
  T* y;
  const bool* condition;
  const T *a, *b;
  __device__ void operator()(const Offsets<4>& at) const {
    const bool first = condition[at.of[1]];
    const T* from = first ? a : b;
    y[at.of[0]] = from == nullptr ? T{} : from[first ? at.of[2] : at.of[3]];
  }
};

template <class T>
void where(const KernelCall& call, const NoAttributes&) {
  const View& y = call.out[0];
  auto strides = [&](const View& view) {
    return view.present ? broadcast_strides(view.shape, view.strides, y.shape)
                        : Strides(Dims::filled(y.shape.size(), 0));
  };
  StridedLoop<4> loop(y.shape,
                      {y.strides, strides(call.in[0]), strides(call.in[1]), strides(call.in[2])});
  for_each_element(
      call, loop,
      Choose<T>{y.as<T>(), call.in[0].as<bool>(), call.in[1].as<T>(), call.in[2].as<T>()}, "where");
}

/// The element of x behind element i of y, or the value outside x.
template <class T>
struct Pad {
  int rank;
  int64_t from[Dims::kMax], to[Dims::kMax], before[Dims::kMax];  // sizes of x and y
  T value;
  const T* x;
  T* y;

  Pad(const KernelCall& call, const kernel::PadAttributes& by)
      : rank(call.out[0].shape.size()),
        value(convert<T>(by.value)),
        x(call.in[0].as<T>()),
        y(call.out[0].as<T>()) {
    for (int axis = 0; axis < rank; ++axis) {
      from[axis] = call.in[0].shape[axis];
      to[axis] = call.out[0].shape[axis];
      before[axis] = by.before[static_cast<size_t>(axis)];
    }
  }
  __device__ void operator()(const Offsets<1>& at) const {
    int64_t rest = at.of[0], source = 0, stride = 1;
    bool inside = true;
    for (int axis = rank - 1; axis >= 0; --axis) {
      const int64_t i = rest % to[axis] - before[axis];
      inside = inside && i >= 0 && i < from[axis];
      rest /= to[axis];
      source += i * stride;
      stride *= from[axis];
    }
    y[at.of[0]] = inside ? x[source] : value;
  }
};

void pad(const KernelCall& call, const kernel::PadAttributes& by) {
  const int64_t count = call.out[0].numel();
  visit_dtype(call.out[0].dtype,
              [&]<class T>() { for_each_element(call, count, Pad<T>(call, by), "pad"); });
}

/// x * scale[c] + shift[c], with one rounding.
template <class S>
struct Normalize {
  using T = Compute<S>;
  kernel::NormalizeAttributes by;
  int64_t channels;
  const uint8_t* x;
  S* y;
  __device__ void operator()(const Offsets<1>& at) const {
    const auto c = static_cast<size_t>(at.of[0] % channels);
    y[at.of[0]] = round_to<S>(
        fma(static_cast<T>(x[at.of[0]]), static_cast<T>(by.scale[c]), static_cast<T>(by.shift[c])));
  }
};

template <class S>
void normalize(const KernelCall& call, const kernel::NormalizeAttributes& by) {
  const View& y = call.out[0];
  if (y.numel() == 0) return;
  for_each_element(call, y.numel(),
                   Normalize<S>{by, y.shape.back(), call.in[0].as<uint8_t>(), y.as<S>()},
                   "normalize");
}

/// To four neighbouring elements of a sample the generator's counter gives a word each: the bits
/// that the CPU draws.
template <class T>
struct Drop {
  RandomKey known;
  LiveKey live;
  uint64_t first_sample;
  uint32_t below;  // of 24 bits
  T scale;
  int64_t each;  // elements of a sample

  struct Element {
    const Drop& by;
    RandomKey key;
    int64_t sample, at;
    std::array<uint32_t, 4> words;
    bool drawn;

    __device__ T operator()(T x) {
      if (!drawn || at % 4 == 0)
        words = philox(key, by.first_sample + static_cast<uint64_t>(sample),
                       static_cast<uint64_t>(at / 4));
      drawn = true;
      return (word() >> 8) < by.below ? T(0) : x * by.scale;
    }
    __device__ void next() {
      if (++at < by.each) return;
      at = 0;
      ++sample;
    }
    // An index would put the words into memory.
    __device__ uint32_t word() const {
      const uint32_t first = at % 2 == 0 ? words[0] : words[1];
      const uint32_t second = at % 2 == 0 ? words[2] : words[3];
      return at % 4 < 2 ? first : second;
    }
  };
  __device__ Element from(int64_t i) const {
    return {*this, live.key_or(known), i / each, i % each, {}, false};
  }
};

template <class S>
void dropout(const KernelCall& call, const kernel::DropoutAttributes& by) {
  using T = Compute<S>;
  const View& x = call.in[0];
  if (x.numel() == 0) return;
  map_from(call, x.numel(),
           Drop<T>{.known = by.key,
                   .live = by.live,
                   .first_sample = by.first_sample,
                   .below = static_cast<uint32_t>(std::ceil(by.p * 0x1p24)),
                   .scale = static_cast<T>(by.p < 1 ? 1 / (1 - by.p) : 0),
                   .each = x.numel() / (x.shape.empty() ? 1 : x.shape[0])},
           "dropout", call.out[0].as<S>(), x.as<S>());
}

template <class S>
void register_for() {
  register_kernel(kernel::normalize, DeviceType::cuda, dtype_of<S>, normalize<S>);
  register_kernel(kernel::dropout, DeviceType::cuda, dtype_of<S>, dropout<S>);
}

}  // namespace

void register_select() {
  register_for<float>();
  register_for<double>();
  register_for<Float16>();
  register_for<BFloat16>();
  register_kernel(kernel::where, DeviceType::cuda, Dtype::float32, where<float>);
  register_kernel(kernel::where, DeviceType::cuda, Dtype::float64, where<double>);
  register_kernel(kernel::where, DeviceType::cuda, Dtype::float16, where<Float16>);
  register_kernel(kernel::where, DeviceType::cuda, Dtype::bfloat16, where<BFloat16>);
  for (int i = 0; i < kDtypes; ++i)
    register_kernel(kernel::pad, DeviceType::cuda, static_cast<Dtype>(i), pad);
}

}  // namespace brim::cuda
