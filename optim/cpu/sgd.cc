#include "brim/optim/sgd.h"

#include <cmath>

#include "brim/optim/cpu/factored_gradient.h"
#include "brim/optim/cpu/float_row.h"
#include "brim/optim/cpu/register.h"
#include "brim/optim/cpu/square_sum.h"
#include "brim/optim/cpu/stretches.h"
#include "brim/optim/gradient_reader.h"

namespace brim::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements that repay a second thread

enum class Kind { plain, momentum, nesterov };

template <class T>
struct Numbers {
  T rate, momentum, weight_decay;
  optim::GradientReader<T> read;
};

// `omp simd`: these loops are worth vectors whatever the level of optimisation.
template <class T, Kind kind>
void update(T* __restrict p, T* __restrict v, const T* __restrict gradient, int64_t count,
            const Numbers<T>& n) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    T direction = std::fma(n.weight_decay, p[i], n.read(gradient[i]));
    if constexpr (kind != Kind::plain) {
      T velocity = std::fma(n.momentum, v[i], direction);
      v[i] = velocity;
      direction = kind == Kind::nesterov ? std::fma(n.momentum, velocity, direction) : velocity;
    }
    p[i] = std::fma(-n.rate, direction, p[i]);
  }
}

template <class T>
using UpdateRow = void (*)(T* p, T* v, const T* gradient, int64_t count, const Numbers<T>& n);

template <class T>
UpdateRow<T> row_of(Kind kind) {
  return kind == Kind::plain      ? update<T, Kind::plain>
         : kind == Kind::momentum ? update<T, Kind::momentum>
                                  : update<T, Kind::nesterov>;
}

/// Updates stretches of the parameter by `row`, so that the loops around it are compiled once for
/// all kinds.
template <class T>
struct Update {
  T *p, *v;  // v is null where there is no momentum
  Numbers<T> numbers;
  UpdateRow<T> row;

  void fetch(int64_t begin, int64_t count) const {
    fetch_lines(p, begin, count);
    if (v != nullptr) fetch_lines(v, begin, count);
  }
  void operator()(int64_t begin, int64_t count, const T* gradient) const {
    row(p + begin, v != nullptr ? v + begin : nullptr, gradient, count, numbers);
  }
};

template <class T>
void run(const KernelCall& call, const Numbers<T>& numbers, Kind kind) {
  T* v = kind == Kind::plain ? nullptr : call.out[1].as<T>();
  const Update<T> update{call.out[0].as<T>(), v, numbers, row_of<T>(kind)};
  if (has_factors(call)) return update_from_factors(call, call.out[2], numbers.read, update);
  const T* gradient = call.in[0].as<T>();
  update_and_sum<kSquares>(
      call, call.out[2], numbers.read, kGrain,
      [=](int64_t begin, int64_t end) { update_stretches(gradient, begin, end, update); });
}

/// With some of the buffers in bfloat16.
void run_mixed(const KernelCall& call, const Numbers<float>& numbers, Kind kind,
               const kernel::SgdAttributes& a) {
  const uint64_t step = optim::step_of(call.in[1].as<double>());
  const FloatBuffer of_gradient(call.in[0]), of_p(call.out[0]), of_v(call.out[1]);
  const optim::RoundingStream of_parameter{a.parameter_key, step},
      of_momentum{a.momentum_key, step};
  const UpdateRow<float> row = row_of<float>(kind);
  update_and_sum<FloatRow::kMost>(
      call, call.out[2], numbers.read, kGrain, [=](int64_t begin, int64_t end) {
        FloatRow gradient(of_gradient), p(of_p), v(of_v);
        for (int64_t at = begin; at < end; at += FloatRow::kMost) {
          const int64_t count = std::min(FloatRow::kMost, end - at);
          row(p.read(at, count), v.read(at, count), gradient.read(at, count), count, numbers);
          p.write(at, count, of_parameter);
          v.write(at, count, of_momentum);
        }
      });
}

template <class T>
void sgd(const KernelCall& call, const kernel::SgdAttributes& a) {
  using optim::StepScalars;
  const double* scalars = call.in[1].as<double>();
  if (!optim::is_applied(scalars)) return;
  Numbers<T> numbers{static_cast<T>(scalars[StepScalars::kRate] * a.rate_factor),
                     static_cast<T>(a.momentum), static_cast<T>(a.weight_decay),
                     optim::GradientReader<T>::from(scalars)};
  const Kind kind = !call.out[1].present ? Kind::plain
                    : a.nesterov         ? Kind::nesterov
                                         : Kind::momentum;
  if constexpr (std::is_same_v<T, float>)
    if (has_bfloat16(call)) return run_mixed(call, numbers, kind, a);
  run(call, numbers, kind);
}

}  // namespace

void register_sgd() {
  register_kernel(kernel::sgd, DeviceType::cpu, Dtype::float32, sgd<float>);
  register_kernel(kernel::sgd, DeviceType::cpu, Dtype::bfloat16, sgd<float>);
  register_kernel(kernel::sgd, DeviceType::cpu, Dtype::float64, sgd<double>);
}

}  // namespace brim::cpu
