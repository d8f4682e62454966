#include "brim/optim/adamw.h"

#include <cmath>

#include "brim/optim/adamw_numbers.h"
#include "brim/optim/cpu/factored_gradient.h"
#include "brim/optim/cpu/float_row.h"
#include "brim/optim/cpu/register.h"
#include "brim/optim/cpu/square_sum.h"
#include "brim/optim/cpu/stretches.h"
#include "brim/optim/gradient_reader.h"

namespace brim::cpu {
namespace {

constexpr int64_t kGrain = 8192;  // elements that repay a second thread

template <class T>
struct Numbers : optim::AdamWNumbers<T> {
  optim::GradientReader<T> read;
};

template <class T>
Numbers<T> numbers_of(const double* scalars, const kernel::AdamWAttributes& a) {
  return {optim::AdamWNumbers<T>::from(scalars, a), optim::GradientReader<T>::from(scalars)};
}

// `omp simd`: these loops are worth vectors whatever the level of optimisation.
template <class T>
void update(T* __restrict p, T* __restrict m, T* __restrict v, const T* __restrict gradient,
            int64_t count, const Numbers<T>& n) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    T g = n.read(gradient[i]);
    m[i] = std::fma(n.rest1, g - m[i], m[i]);
    v[i] = std::fma(n.beta2, v[i], n.rest2 * g * g);
    T direction = m[i] / (std::sqrt(v[i]) / n.root + n.epsilon);
    p[i] = std::fma(-n.step, direction, n.keep * p[i]);
  }
}

/// Of stretches of the parameter.
template <class T>
struct Update {
  T *p, *m, *v;
  Numbers<T> numbers;

  void fetch(int64_t begin, int64_t count) const {
    for (const T* each : {p, m, v}) fetch_lines(each, begin, count);
  }
  void operator()(int64_t begin, int64_t count, const T* gradient) const {
    update(p + begin, m + begin, v + begin, gradient, count, numbers);
  }
};

/// With some of the buffers in bfloat16.
void run_mixed(const KernelCall& call, const Numbers<float>& numbers,
               const kernel::AdamWAttributes& a) {
  const uint64_t step = optim::step_of(call.in[1].as<double>());
  const FloatBuffer of_gradient(call.in[0]), of_p(call.out[0]), of_m(call.out[1]),
      of_v(call.out[2]);
  const optim::RoundingStream of_parameter{a.parameter_key, step}, of_exp_avg{a.exp_avg_key, step},
      of_exp_avg_sq{a.exp_avg_sq_key, step};
  update_and_sum<FloatRow::kMost>(
      call, call.out[3], numbers.read, kGrain, [=](int64_t begin, int64_t end) {
        FloatRow gradient(of_gradient), p(of_p), m(of_m), v(of_v);
        for (int64_t at = begin; at < end; at += FloatRow::kMost) {
          const int64_t count = std::min(FloatRow::kMost, end - at);
          update(p.read(at, count), m.read(at, count), v.read(at, count), gradient.read(at, count),
                 count, numbers);
          p.write(at, count, of_parameter);
          m.write(at, count, of_exp_avg);
          v.write(at, count, of_exp_avg_sq);
        }
      });
}

template <class T>
void adamw(const KernelCall& call, const kernel::AdamWAttributes& a) {
  if (!optim::is_applied(call.in[1].as<double>())) return;
  Numbers<T> numbers = numbers_of<T>(call.in[1].as<double>(), a);
  if constexpr (std::is_same_v<T, float>)
    if (has_bfloat16(call)) return run_mixed(call, numbers, a);
  const Update<T> update{call.out[0].as<T>(), call.out[1].as<T>(), call.out[2].as<T>(), numbers};
  if (has_factors(call)) return update_from_factors(call, call.out[3], numbers.read, update);
  const T* gradient = call.in[0].as<T>();
  update_and_sum<kSquares>(
      call, call.out[3], numbers.read, kGrain,
      [=](int64_t begin, int64_t end) { update_stretches(gradient, begin, end, update); });
}

}  // namespace

void register_adamw() {
  register_kernel(kernel::adamw, DeviceType::cpu, Dtype::float32, adamw<float>);
  register_kernel(kernel::adamw, DeviceType::cpu, Dtype::bfloat16, adamw<float>);
  register_kernel(kernel::adamw, DeviceType::cpu, Dtype::float64, adamw<double>);
}

}  // namespace brim::cpu
