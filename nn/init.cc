#include "brim/nn/init.h"

#include <cmath>

#include "brim/base/parallel.h"
#include "brim/nn/module.h"

namespace brim::nn {
namespace {

constexpr int64_t kGrain = 4096;  // draws that repay a second thread

// Element i becomes value(i). Straight into the parameter: there may be no room for a copy.
template <class Value>
void generate(const Tensor& to, const Value& value) {
  check(to.is_contiguous(), "a parameter is contiguous");
  if (!to.device().is_meta()) {
    expect<DeviceError>(to.device().is_cpu(), "initialize", "cannot draw on {}",
                        to_string(to.device()));
    visit_dtype(to.dtype(), [&]<class T>() {
      T* values = to.data<T>();
      parallel_for(to.numel(), kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) values[i] = convert<T>(value(i));
      });
    });
  }
  to.storage()->note_write("initialize");
}

void draw_normal(const Tensor& to, RandomKey key, double deviation) {
  generate(to,
           [=](int64_t i) { return deviation * random_normal(key, 0, static_cast<uint64_t>(i)); });
}

void draw_uniform(const Tensor& to, RandomKey key, double bound) {
  generate(to, [=](int64_t i) {
    return bound * (2.0 * random_uniform(key, 0, static_cast<uint64_t>(i)) - 1.0);
  });
}

double kaiming_deviation(const Shape& weight, const KaimingOptions& options) {
  return options.gain / std::sqrt(static_cast<double>(fan_of(weight, options.fan)));
}

double xavier_deviation(const Shape& weight, double gain) {
  auto fans = static_cast<double>(fan_of(weight, Fan::in) + fan_of(weight, Fan::out));
  return gain * std::sqrt(2 / fans);
}

constexpr double kSqrt3 = 1.7320508075688772;  // a uniform's bound over its deviation

}  // namespace

int64_t fan_of(const Shape& weight, Fan fan) {
  expect<ShapeError>(weight.size() == 2 || weight.size() == 4, "init",
                     "expected a weight [out,in] or [K,R,S,C], got {}", to_string(weight));
  int64_t window = weight.size() == 4 ? weight[1] * weight[2] : 1;
  return window * (fan == Fan::in ? weight.back() : weight[0]);
}

namespace init {

Init constant(double value) {
  return [=](const Tensor& to, RandomKey) { fill(to, value); };
}
Init normal(double deviation) {
  return [=](const Tensor& to, RandomKey key) { draw_normal(to, key, deviation); };
}
Init uniform(double bound) {
  return [=](const Tensor& to, RandomKey key) { draw_uniform(to, key, bound); };
}
Init kaiming_normal(const KaimingOptions& options) {
  return [=](const Tensor& to, RandomKey key) {
    draw_normal(to, key, kaiming_deviation(to.shape(), options));
  };
}
Init kaiming_uniform(const KaimingOptions& options) {
  return [=](const Tensor& to, RandomKey key) {
    draw_uniform(to, key, kSqrt3 * kaiming_deviation(to.shape(), options));
  };
}
Init xavier_normal(double gain) {
  return [=](const Tensor& to, RandomKey key) {
    draw_normal(to, key, xavier_deviation(to.shape(), gain));
  };
}
Init xavier_uniform(double gain) {
  return [=](const Tensor& to, RandomKey key) {
    draw_uniform(to, key, kSqrt3 * xavier_deviation(to.shape(), gain));
  };
}

}  // namespace init

void initialize(Module& module, uint64_t seed) {
  RandomKey key = derive(RandomKey{seed}, "initial values");
  module.for_each_slot([&](const std::string& name, const Module::Slot& slot) {
    slot.init(*slot.tensor, derive(key, name));
  });
}

}  // namespace brim::nn
