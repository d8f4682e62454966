// How the forward and backward kernels of group norm walk over x [N,P,C]: units of one sample and
// some whole groups, each summed by one thread, so sums are the same with any number of threads.
// Wide groups are rows to add up; narrow ones go side by side, a sum per channel, so that inner
// loops are long. For statistics over the batch see channel_rows.h.
#pragma once

#include <algorithm>
#include <cstdint>

#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/row_sum.h"
#include "brim/ops/cpu/vector.h"
#include "brim/ops/norm_formula.h"

namespace brim::cpu {

struct GroupUnits {
  static constexpr int64_t kWide = 64;      ///< channels of a group that is summed by itself
  static constexpr int64_t kColumns = 128;  ///< of narrow groups that are summed together

  GroupUnits(const View& x, int64_t groups)
      : samples(x.shape[0]),
        pixels(x.shape[1]),
        channels(x.shape[2]),
        groups(groups),
        width(channels / groups),
        each(is_wide() ? 1
                       : std::clamp<int64_t>(kColumns / std::max<int64_t>(width, 1), 1, groups)),
        blocks((groups + each - 1) / each) {}

  bool is_wide() const { return width >= kWide; }
  /// Values in a group; 1 where there are none, to divide by.
  double size() const { return static_cast<double>(std::max<int64_t>(pixels * width, 1)); }

  int64_t samples, pixels, channels, groups;
  int64_t width;   ///< channels of a group
  int64_t each;    ///< groups of a unit
  int64_t blocks;  ///< units of a sample

  struct Unit {
    int64_t first;    ///< group, counted through all samples
    int64_t groups;   ///< at most kColumns
    int64_t channel;  ///< the first
    int64_t columns;  ///< channels
    int64_t start;    ///< element of the first pixel
  };
  Unit unit(int64_t i) const {
    int64_t sample = i / blocks, group = i % blocks * each, count = std::min(each, groups - group);
    int64_t channel = group * width;
    return {sample * groups + group, count, channel, count * width,
            sample * pixels * channels + channel};
  }

  /// Calls `body(unit)` for all of them, in parallel.
  template <class Body>
  void for_each(const Body& body) const {
    int64_t grain = 8192 / std::max<int64_t>(pixels * each * width, 1) + 1;
    parallel_for(samples * blocks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(unit(i));
    });
  }

  /// Calls `body(i, c, k)` for every element i of the unit: c is its channel, k where what is kept
  /// per group is found (`GroupValues`).
  template <class Body>
  void for_elements(const Unit& unit, const Body& body) const {
    for (int64_t p = 0; p < pixels; ++p) {
      int64_t at = unit.start + p * channels;
      if (is_wide())
        for (int64_t j = 0; j < width; ++j) body(at + j, unit.channel + j, 0);
      else
        for (int64_t j = 0; j < unit.columns; ++j) body(at + j, unit.channel + j, j);
    }
  }

  /// sums[g] = the sum of `term(i, c, k)` over the elements of group g of the unit.
  template <class T, class Term>
  void sum(const Unit& unit, const Term& term, double* sums) const {
    is_wide() ? sum_wide(unit, term, sums) : sum_narrow<T>(unit, term, sums);
  }

 private:
  static constexpr int64_t kFlush = 128;  // pixels added in T before their sum goes into a double

  template <class Term>
  void sum_wide(const Unit& unit, const Term& term, double* sums) const {
    *sums = 0;
    for (int64_t p = 0; p < pixels; ++p) {
      int64_t at = unit.start + p * channels;
      *sums +=
          row_sum([&](int64_t j) { return term(at + j, unit.channel + j, int64_t{0}); }, 0, width);
    }
  }

  template <class T, class Term>
  void sum_narrow(const Unit& unit, const Term& term, double* sums) const {
    double totals[kColumns] = {};
    for (int64_t begin = 0; begin < pixels; begin += kFlush) {
      T part[kColumns] = {};
      for (int64_t p = begin; p < std::min(begin + kFlush, pixels); ++p) {
        int64_t at = unit.start + p * channels;
        for (int64_t j = 0; j < unit.columns; ++j) part[j] += term(at + j, unit.channel + j, j);
      }
      for (int64_t j = 0; j < unit.columns; ++j) totals[j] += static_cast<double>(part[j]);
    }
    for (int64_t g = 0; g < unit.groups; ++g) {
      sums[g] = 0;
      for (int64_t j = 0; j < width; ++j) sums[g] += totals[g * width + j];
    }
  }
};

/// A value per group of a unit, where `k` finds it: repeated for each channel of narrow groups.
template <class T>
struct GroupValues {
  T values[GroupUnits::kColumns];

  /// `value(g)` for group g of the unit.
  template <class Value>
  void set(const GroupUnits& units, const GroupUnits::Unit& unit, const Value& value) {
    int64_t repeat = units.is_wide() ? 1 : units.width;
    for (int64_t g = 0; g < unit.groups; ++g)
      std::fill_n(values + g * repeat, repeat, static_cast<T>(value(g)));
  }
  T operator[](int64_t k) const { return values[k]; }
};

/// xhat = (x - mean) * inverse + shift, of each group of a unit (ops/norm_formula.h).
template <class T>
struct GroupCoefficients {
  GroupValues<T> mean, inverse, shift;

  /// From the statistics of the unit's groups, in double.
  void set(const GroupUnits& units, const GroupUnits::Unit& unit, const double* means,
           const double* inverses) {
    auto group = [=](int64_t g) { return norm_group<T>(means[g], inverses[g]); };
    mean.set(units, unit, [=](int64_t g) { return group(g).mean; });
    inverse.set(units, unit, [=](int64_t g) { return group(g).inverse; });
    shift.set(units, unit, [=](int64_t g) { return group(g).shift; });
  }
  T normalized(T x, int64_t k) const { return fma(x - mean[k], inverse[k], shift[k]); }
};

}  // namespace brim::cpu
