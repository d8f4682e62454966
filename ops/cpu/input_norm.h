// The batch norm of a convolution's input, applied while some pixels of it are in the cache: for
// kernels that then read those instead of x. What they read has the bits of `kernel::batch_norm`.
#pragma once

#include <algorithm>
#include <type_traits>

#include "brim/ops/cpu/batch_norm.h"
#include "brim/ops/cpu/depthwise_tiles.h"

namespace brim::cpu {

class InputNorm {
 public:
  /// Takes room for the coefficients; `x` is the convolution's input.
  InputNorm(const View& x, Activation activation, ScratchCursor& scratch)
      : rows_(x), by_(scratch, rows_), activation_(activation) {}

  /// Once, before `apply`: [C], mean and variance in float64.
  void set(const View& weight, const View& bias, const View& mean, const View& variance,
           double epsilon) {
    by_.set(rows_, weight, bias, mean, variance, epsilon);
  }

  /// activation((x - mean) * scale + shift) of some pixels, to `to`, which may be x.
  void apply(const float* x, int64_t pixels, float* to) const {
    with_activation(activation_, [&](auto activation) { apply_with<activation()>(x, pixels, to); });
  }

  const NormCoefficients<float>& coefficients() const { return by_; }
  Activation activation() const { return activation_; }

 private:
  template <Activation activation>
  void apply_with(const float* x, int64_t pixels, float* to) const {
    const int64_t elements = pixels * rows_.channels;
    for (int64_t at = 0; at < elements; at += rows_.length)
      put_row(to, at, std::min(rows_.length, elements - at), false, [&]<class V>(int64_t i) {
        prefetch_ahead(x + at + i);
        return activate<activation>(normalized(load<V>(x + at + i), load<V>(by_.mean + i),
                                               load<V>(by_.scale + i), load<V>(by_.shift + i)));
      });
  }

  ChannelRows rows_;
  NormCoefficients<float> by_;
  Activation activation_;
};

/// How a depthwise kernel normalises its input: with room for rows of each of its threads. Or, with
/// a null norm, not at all.
struct OnTheWay {
  const InputNorm* norm = nullptr;
  int64_t rows = 0;  ///< that a thread keeps
  int64_t step = 0;  ///< floats from one thread's to the next's
  float* room = nullptr;
  bool has_margins = false;     ///< zeros beside each row, as far as windows reach
  int64_t left = 0, right = 0;  ///< columns of them

  OnTheWay() = default;
  /// With margins, if they are wanted and no wider than a window.
  OnTheWay(const InputNorm* norm, const ConvShape& shape, int64_t threads, ScratchCursor& scratch,
           bool margins = false)
      : norm(norm) {
    if (norm == nullptr) return;
    if (margins && shape.dilation.w == 1 && shape.padding.w < shape.s) {
      left = shape.padding.w;
      right = std::max<int64_t>((shape.q - 1) * shape.stride.w + shape.s - left - shape.w, 0);
      has_margins = true;
    }
    // Two windows, so that few rows are copied, or what is a small part of a cache; never more
    // than an image has.
    constexpr int64_t kSmall = int64_t{32} << 10;  // floats
    const int64_t window = (shape.r - 1) * std::min(shape.dilation.h, shape.h) + 1;
    const int64_t row = (left + shape.w + right) * shape.c;
    rows = std::min(shape.h, std::max(2 * window, kSmall / row));
    step = rows * row;
    room = scratch.take<float>(threads * step);
  }
};

/// The rows of images that one thread reads: where they lie, or normalised when they are first
/// asked for and kept while windows pass over them.
template <class T>
class InputRows {
 public:
  InputRows(const T* x, int64_t height, int64_t width, int64_t channels)
      : x_(x), height_(height), width_(width), channels_(channels) {}
  InputRows(const ConvShape& shape, const T* x, const OnTheWay& way, int64_t thread)
      : InputRows(x, shape.h, shape.w, shape.c) {
    norm_ = way.norm;
    capacity_ = way.rows;
    if (norm_ == nullptr) return;
    room_ = way.room + thread * way.step;
    has_margins_ = way.has_margins;
    left_ = way.left;
    right_ = way.right;
    if constexpr (std::is_same_v<T, float>)
      for (int64_t row = 0; row < capacity_; ++row) {
        float* at = room_ + row * room_row();
        std::fill_n(at, left_ * channels_, 0.0f);
        std::fill_n(at + (left_ + width_) * channels_, right_ * channels_, 0.0f);
      }
  }

  bool are_normalized() const { return norm_ != nullptr; }
  /// All, where they lie.
  Plane<T> of_image(int64_t image) const {
    return {x_ + image * height_ * width_ * channels_, width_, channels_};
  }
  /// Normalised, at least those under a window, until the next call; of an image from top to
  /// bottom.
  Plane<T> under(int64_t image, const Meeting& window) {
    if constexpr (std::is_same_v<T, float>) return normalized(image, window);
    return of_image(image);
  }

 private:
  Plane<float> normalized(int64_t image, const Meeting& window) {
    const int64_t begin = window.at, row = room_row();
    const int64_t end = window.count == 0 ? begin : begin + (window.count - 1) * window.at_step + 1;
    if (image != image_ || begin < begin_ || begin > end_) {
      image_ = image;
      begin_ = end_ = begin;
    }
    if (end - begin_ > capacity_) {
      std::copy(room_ + (begin - begin_) * row, room_ + (end_ - begin_) * row, room_);
      begin_ = begin;
    }
    if (end > end_) {
      fill(image, end_, end);
      end_ = end;
    }
    return {.data = room_ + left_ * channels_,
            .width = left_ + width_ + right_,
            .channels = channels_,
            .first_row = begin_,
            .has_margins = has_margins_,
            .in_memory = x_ + (image * height_ + begin_) * width_ * channels_,
            .memory_width = width_};
  }

  int64_t room_row() const { return (left_ + width_ + right_) * channels_; }
  void fill(int64_t image, int64_t begin, int64_t end) {
    const float* from = x_ + (image * height_ + begin) * width_ * channels_;
    float* to = room_ + (begin - begin_) * room_row() + left_ * channels_;
    if (left_ + right_ == 0) return norm_->apply(from, (end - begin) * width_, to);
    for (; begin < end; ++begin, from += width_ * channels_, to += room_row())
      norm_->apply(from, width_, to);
  }

  const T* x_;
  int64_t height_, width_, channels_;
  const InputNorm* norm_ = nullptr;
  int64_t capacity_ = 0;
  float* room_ = nullptr;
  bool has_margins_ = false;
  int64_t left_ = 0, right_ = 0;              ///< columns of zeros
  int64_t image_ = -1, begin_ = 0, end_ = 0;  ///< rows that are there
};

}  // namespace brim::cpu
