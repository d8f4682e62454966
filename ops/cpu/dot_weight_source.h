// What the weight gradient by dot products of pairs (ops/cpu/dot_weight.h) copies: where it lies,
// and how it is fetched before.
#pragma once

#include "brim/ops/cpu/dot_weight_layout.h"
#include "brim/ops/cpu/image_pairs.h"

#ifdef __AVX512BW__

#include <algorithm>
#include <cstdint>

#include "brim/base/bytes.h"
#include "brim/ops/conv_shape.h"

namespace brim::cpu::dots {

/// The rows of x and dy that a unit is copied from, for a part of the gradient.
class Source {
 public:
  /// What is read of a row: `count` runs of `numbers`, `step` apart, from `first`.
  struct Spread {
    int64_t first, count, step, numbers;
  };

  Source(const ConvShape& z, const Cut& cut, const BFloat16* x, const BFloat16* dy,
         const Unit& unit, const Part& part)
      : unit(unit),
        part(part),
        x_rows(cut.x_rows(unit.rows.size())),
        channels{cut.first_vector(part.panels.begin) * kWidth,
                 std::min(cut.first_vector(part.panels.end) * kWidth, z.c)},
        outputs{part.tiles.begin * kOutputs, std::min(part.tiles.end * kOutputs, z.k)},
        z_(z),
        cut_(cut),
        x_(x),
        dy_(dy) {}

  const Unit unit;
  const Part part;
  const int64_t x_rows;  ///< of each pair of images
  const Range channels, outputs;

  int64_t all_x_rows() const { return unit.pairs.size() * x_rows; }
  int64_t all_dy_rows() const { return unit.pairs.size() * unit.rows.size(); }
  /// Row i of x, which follow each other and then those of the next pair: none outside of the
  /// image.
  ImageRows x_row(int64_t i) const {
    const int64_t pair = unit.pairs.begin + i / x_rows;
    const int64_t row = (unit.rows.begin * cut_.stride_h + i % x_rows) * cut_.step_h - z_.padding.h;
    if (row < 0 || row >= z_.h) return {};
    return image_rows(x_, z_.n, pair, z_.h, row, z_.w * z_.c);
  }
  ImageRows dy_row(int64_t i) const {
    const int64_t pair = unit.pairs.begin + i / unit.rows.size();
    return image_rows(dy_, z_.n, pair, z_.p, unit.rows.begin + i % unit.rows.size(), z_.q * z_.k);
  }
  Spread of_x_row() const {
    const int64_t step = cut_.step_w;
    return spread(z_.w, (step - z_.padding.w % step) % step, step, z_.c, channels);
  }
  Spread of_dy_row() const { return spread(z_.q, 0, 1, z_.k, outputs); }

 private:
  /// Of pixels from the first on, some of their numbers.
  static Spread spread(int64_t pixels, int64_t first, int64_t step, int64_t numbers,
                       const Range& range) {
    constexpr int64_t kRun = 128;
    if (range.size() == numbers && step == 1)
      return {0, ceil_div(pixels * numbers, kRun), kRun, kRun};
    return {first * numbers + range.begin, ceil_div(pixels - first, step), step * numbers,
            range.size()};
  }

  const ConvShape& z_;
  const Cut& cut_;
  const BFloat16 *x_, *dy_;
};

/// Asks the memory for a source, a little at a time.
class Ahead {
 public:
  /// In so many steps. The source may be null: nothing comes next.
  Ahead(const Source* source, int64_t steps) : source_(source) {
    if (source == nullptr) return;
    const auto lines = [](int64_t rows, const Source::Spread& of_row) {
      return 2 * rows * of_row.count * ceil_div(of_row.numbers, kLine);
    };
    spread_ = source->of_x_row();
    share_ = ceil_div(lines(source->all_x_rows(), source->of_x_row()) +
                          lines(source->all_dy_rows(), source->of_dy_row()),
                      steps);
  }

  void step() {
    if (source_ == nullptr) return;
    for (due_ += share_; due_ > 0 && source_ != nullptr; next()) {
      if (rows_.a == nullptr) continue;
      const int64_t at = spread_.first + i_ * spread_.step;
      for (int64_t j = 0; j < spread_.numbers; j += kLine) {
        __builtin_prefetch(rows_.a + at + j, 0, 2);
        if (rows_.b != nullptr) __builtin_prefetch(rows_.b + at + j, 0, 2);
        due_ -= 2;
      }
    }
  }

 private:
  static constexpr int64_t kLine = 64 / sizeof(BFloat16);

  void next() {
    if (rows_.a != nullptr && ++i_ < spread_.count) return;
    i_ = 0;
    if (row_ == source_->all_x_rows()) spread_ = source_->of_dy_row();
    const int64_t of_dy = row_ - source_->all_x_rows();
    if (of_dy == source_->all_dy_rows())
      source_ = nullptr;
    else
      rows_ = of_dy < 0 ? source_->x_row(row_) : source_->dy_row(of_dy);
    ++row_;
  }

  const Source* source_;
  Source::Spread spread_{};
  ImageRows rows_;
  int64_t row_ = 0, i_ = 0, share_ = 0, due_ = 0;
};

}  // namespace brim::cpu::dots

#endif
