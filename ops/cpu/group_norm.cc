#include "brim/ops/cpu/group_norm.h"

#include <cmath>

#include "brim/ops/cpu/channel_sums.h"
#include "brim/ops/cpu/register.h"
#include "brim/ops/group_norm.h"

namespace brim::cpu {
namespace {

using kernel::GroupNormAttributes;
using Unit = GroupUnits::Unit;

// Mean and inverse standard deviation of the unit's groups. The first sum's rounding is found again
// in that of x - mean, and taken out of both.
template <class T>
void statistics(const GroupUnits& units, const Unit& unit, const T* x, double epsilon,
                double* means, double* inverses) {
  GroupValues<T> near;
  double deviation[GroupUnits::kColumns], squares[GroupUnits::kColumns], n = units.size();
  units.sum<T>(
      unit, [=](int64_t i, int64_t, int64_t) { return x[i]; }, means);
  near.set(units, unit, [=](int64_t g) { return means[g] / n; });
  units.sum<T>(
      unit, [&](int64_t i, int64_t, int64_t k) { return x[i] - near[k]; }, deviation);
  units.sum<T>(
      unit, [&](int64_t i, int64_t, int64_t k) { return (x[i] - near[k]) * (x[i] - near[k]); },
      squares);
  int64_t repeat = units.is_wide() ? 1 : units.width;
  for (int64_t g = 0; g < unit.groups; ++g) {
    double off = deviation[g] / n, variance = std::max(squares[g] / n - off * off, 0.0);
    means[g] = static_cast<double>(near[g * repeat]) + off;
    inverses[g] = 1 / std::sqrt(variance + epsilon);
  }
}

template <class T>
void group_norm(const KernelCall& call, const GroupNormAttributes& attributes) {
  GroupUnits units(call.in[0], attributes.groups);
  const T* x = call.in[0].as<T>();
  const T* weight = call.in[1].present ? call.in[1].as<T>() : nullptr;
  const T* bias = call.in[2].present ? call.in[2].as<T>() : nullptr;
  T* y = call.out[0].as<T>();
  units.for_each([&](const Unit& unit) {
    double means[GroupUnits::kColumns], inverses[GroupUnits::kColumns];
    statistics(units, unit, x, attributes.epsilon, means, inverses);
    if (call.out[1].present) {
      std::copy_n(means, unit.groups, call.out[1].as<double>() + unit.first);
      std::copy_n(inverses, unit.groups, call.out[2].as<double>() + unit.first);
    }
    GroupCoefficients<T> by;
    by.set(units, unit, means, inverses);
    units.for_elements(unit, [=, &by](int64_t i, int64_t c, int64_t k) {
      T xhat = by.normalized(x[i], k);
      y[i] = fma(xhat, weight != nullptr ? weight[c] : T(1), bias != nullptr ? bias[c] : T(0));
    });
  });
}

template <class T>
void input_gradient(const KernelCall& call, const GroupUnits& units) {
  const T *dy = call.in[0].as<T>(), *x = call.in[1].as<T>();
  const T* weight = call.in[2].present ? call.in[2].as<T>() : nullptr;
  const double *means = call.in[3].as<double>(), *inverses = call.in[4].as<double>();
  T* dx = call.out[0].as<T>();
  units.for_each([=, &units](const Unit& unit) {
    double sums[GroupUnits::kColumns], n = units.size();
    GroupCoefficients<T> by;
    GroupValues<T> level, slope;
    by.set(units, unit, means + unit.first, inverses + unit.first);
    auto g = [=](int64_t i, int64_t c) { return weight != nullptr ? dy[i] * weight[c] : dy[i]; };
    units.sum<T>(
        unit, [&](int64_t i, int64_t c, int64_t) { return g(i, c); }, sums);
    level.set(units, unit, [&](int64_t j) { return sums[j] / n; });
    units.sum<T>(
        unit, [&](int64_t i, int64_t c, int64_t k) { return g(i, c) * by.normalized(x[i], k); },
        sums);
    slope.set(units, unit, [&](int64_t j) { return sums[j] / n; });
    units.for_elements(unit, [&](int64_t i, int64_t c, int64_t k) {
      dx[i] = by.inverse[k] * (g(i, c) - level[k] - by.normalized(x[i], k) * slope[k]);
    });
  });
}

// The gradients of weight and bias: sums over all pixels, in pieces.
template <class T>
int64_t bytes_of_sums(const ChannelRows& rows) {
  ScratchCursor one(nullptr);
  ChannelSums<T>(one, rows);
  return one.used();
}

int64_t pieces_of(const ChannelRows& rows) {
  return std::min(rows.pieces(), std::max<int64_t>(rows.pixels, 1));
}

template <class T>
int64_t backward_scratch(const KernelCall& call, const GroupNormAttributes&) {
  ChannelRows rows(call.in[0]);
  bool sums = call.out[1].present || call.out[2].present;
  return sums ? pieces_of(rows) * bytes_of_sums<T>(rows) : 0;
}

// Adds the pixel to the sums of dy and, where there is an x, of dy * xhat.
template <class T>
void add_pixel(const KernelCall& call, const GroupUnits& units, int64_t pixel,
               const ChannelSums<T>& sums) {
  const T *dy = call.in[0].as<T>(), *x = call.in[1].as<T>();
  int64_t sample = pixel / units.pixels, at = pixel * units.channels;
  for (int64_t group = 0; group < units.groups; ++group) {
    NormGroup<T> by{};
    const int64_t number = sample * units.groups + group;
    if (call.out[1].present)
      by = norm_group<T>(call.in[3].as<double>()[number], call.in[4].as<double>()[number]);
    int64_t channel = group * units.width;
    for_lanes<T>(units.width, [&]<class V>(int64_t j) {
      V g = load<V>(dy + at + channel + j), xhat{};
      if (x != nullptr)
        xhat = fma(load<V>(x + at + channel + j) - by.mean, broadcast<V>(by.inverse),
                   broadcast<V>(by.shift));
      sums.add(channel + j, g, g * xhat);
    });
  }
}

template <class T>
void parameter_gradients(const KernelCall& call, const GroupUnits& units) {
  ChannelRows rows(call.in[0]);
  int64_t pieces = pieces_of(rows), each = bytes_of_sums<T>(rows);
  auto sums_of = [&](int64_t piece) {
    ScratchCursor cursor(static_cast<char*>(call.scratch) + piece * each);
    return ChannelSums<T>(cursor, rows);
  };
  sums_of(0).clear(rows);  // there may be no pixels
  parallel_pieces(rows.pixels, pieces, [&](int64_t piece, int64_t begin, int64_t end) {
    ChannelSums<T> sums = sums_of(piece);
    sums.clear(rows);
    for (int64_t pixel = begin; pixel < end; ++pixel) {
      add_pixel(call, units, pixel, sums);
      if ((pixel - begin) % kFlushRows == kFlushRows - 1) sums.flush(rows);
    }
    sums.flush(rows);
  });
  for (int64_t c = 0; c < units.channels; ++c) {
    double bias = 0, weight = 0;
    for (int64_t piece = 0; piece < pieces; ++piece) {
      bias += sums_of(piece).total_first[c];
      weight += sums_of(piece).total_second[c];
    }
    if (call.out[1].present) call.out[1].as<T>()[c] = static_cast<T>(weight);
    if (call.out[2].present) call.out[2].as<T>()[c] = static_cast<T>(bias);
  }
}

template <class T>
void group_norm_backward(const KernelCall& call, const GroupNormAttributes& attributes) {
  GroupUnits units(call.in[0], attributes.groups);
  // First what reads dy: dx may take its place.
  if (call.out[1].present || call.out[2].present) parameter_gradients<T>(call, units);
  if (call.out[0].present) input_gradient<T>(call, units);
}

template <class T>
void register_for(Dtype dtype) {
  register_kernel(kernel::group_norm, DeviceType::cpu, dtype, group_norm<T>);
  register_kernel(kernel::group_norm_backward, DeviceType::cpu, dtype, group_norm_backward<T>,
                  backward_scratch<T>);
}

}  // namespace

void register_group_norm() {
  register_for<float>(Dtype::float32);
  register_for<double>(Dtype::float64);
}

}  // namespace brim::cpu
