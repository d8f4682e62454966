#include "brim/nn/init.h"

#include <cmath>

#include "brim/nn/module.h"

namespace brim::nn {
namespace {

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
                     "expected a weight [out,in] or [K,R,S,C], got {}", weight);
  int64_t window = weight.size() == 4 ? weight[1] * weight[2] : 1;
  return window * (fan == Fan::in ? weight.back() : weight[0]);
}

namespace init {

Init constant(double value) {
  return [=](const Tensor& to, RandomKey) { fill(to, value); };
}
Init normal(double deviation) {
  return [=](const Tensor& to, RandomKey key) { fill_normal(to, deviation, key); };
}
Init uniform(double bound) {
  return [=](const Tensor& to, RandomKey key) { fill_uniform(to, -bound, bound, key); };
}
Init kaiming_normal(const KaimingOptions& options) {
  return [=](const Tensor& to, RandomKey key) {
    fill_normal(to, kaiming_deviation(to.shape(), options), key);
  };
}
Init kaiming_uniform(const KaimingOptions& options) {
  return [=](const Tensor& to, RandomKey key) {
    double bound = kSqrt3 * kaiming_deviation(to.shape(), options);
    fill_uniform(to, -bound, bound, key);
  };
}
Init xavier_normal(double gain) {
  return [=](const Tensor& to, RandomKey key) {
    fill_normal(to, xavier_deviation(to.shape(), gain), key);
  };
}
Init xavier_uniform(double gain) {
  return [=](const Tensor& to, RandomKey key) {
    double bound = kSqrt3 * xavier_deviation(to.shape(), gain);
    fill_uniform(to, -bound, bound, key);
  };
}

}  // namespace init

void initialize(Module& module, uint64_t seed) {
  module.name_in_account();
  RandomKey key = derive(RandomKey{seed}, "initial values");
  module.for_each_slot([&](const std::string& name, const Module::Slot& slot) {
    slot.init(*slot.tensor, derive(key, name));
  });
}

}  // namespace brim::nn
