#include "brim/ops/cpu/batch_norm.h"

#include "brim/ops/cpu/channel_sums.h"
#include "brim/ops/cpu/register.h"

namespace brim::cpu {
namespace {

// Sums over one piece of d = x - shift and of its squares. The shift is near the piece's own mean,
// so that the sum of squares loses nothing, however large the mean is.
template <class T>
struct Moments {
  T* shift;
  ChannelSums<T> sums;

  Moments(ScratchCursor& scratch, const ChannelRows& rows)
      : shift(rows.take_row<T>(scratch)), sums(scratch, rows) {}

  // The mean of some pixels, far apart as neighbours are alike. With k of n the squares of d sum
  // to at most n / k times those around the true mean, whatever the values: so much can rounding
  // grow.
  template <class S>
  void choose_shift(const S* x, const ChannelRows& rows, int64_t pixels) const {
    int64_t count = std::min<int64_t>(pixels, 16);
    double* total = sums.total_first;
    std::fill_n(total, rows.channels, 0.0);
    for (int64_t i = 0; i < count; ++i) {
      const S* pixel = x + (2 * i + 1) * pixels / (2 * count) * rows.channels;
      for (int64_t c = 0; c < rows.channels; ++c) total[c] += convert<double>(pixel[c]);
    }
    for (int64_t c = 0; c < rows.channels; ++c)
      shift[c] = static_cast<T>(total[c] / static_cast<double>(count));
    rows.repeat(shift);
  }

  template <int kRows, class S>
  void add(const S* x, int64_t length, int64_t width) const {
    for_lanes<T>(width, [&]<class V>(int64_t i) {
      V at = load<V>(shift + i), sum{}, square{};
      prefetch_next<kRows>(x, length, i);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        V d = load<V>(x + r * length + i) - at;
        sum += d;
        square = fma(d, d, square);
      }
      sums.add(i, sum, square);
    });
  }
};

template <class S>
int64_t statistics_scratch(const KernelCall& call, const NoAttributes&) {
  using T = Compute<S>;
  ChannelRows rows(call.in[0]);
  ScratchCursor scratch(nullptr);
  Moments<T> one(scratch, rows);
  return scratch.used() * rows.pieces();
}

// Pieces with their own n, mean and sum of squares around it join as in Chan, Golub and LeVeque,
// "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
template <class T, class MomentsOf>
void join(const ChannelRows& rows, int64_t pieces, const MomentsOf& moments_of, double* mean,
          double* variance) {
  auto n = static_cast<double>(std::max<int64_t>(rows.pixels, 1));
  auto pixels_of = [&](int64_t piece) {
    return static_cast<double>(
        (rows.start(rows.count * (piece + 1) / pieces) - rows.start(rows.count * piece / pieces)) /
        rows.channels);
  };
  std::fill_n(mean, rows.channels, 0.0);
  std::fill_n(variance, rows.channels, 0.0);
  for (int64_t piece = 0; piece < pieces; ++piece) {
    Moments<T> m = moments_of(piece);
    double count = pixels_of(piece);
    for (int64_t c = 0; c < rows.channels; ++c)
      mean[c] += m.sums.total_first[c] + count * static_cast<double>(m.shift[c]);
  }
  for (int64_t c = 0; c < rows.channels; ++c) mean[c] /= n;
  for (int64_t piece = 0; piece < pieces; ++piece) {
    Moments<T> m = moments_of(piece);
    double count = pixels_of(piece);
    for (int64_t c = 0; c < rows.channels; ++c) {
      double sum = m.sums.total_first[c], own = sum / count;
      double off = own + static_cast<double>(m.shift[c]) - mean[c];
      variance[c] += m.sums.total_second[c] - sum * own + count * off * off;
    }
  }
  for (int64_t c = 0; c < rows.channels; ++c) variance[c] = std::max(variance[c] / n, 0.0);
}

template <class S>
void statistics(const KernelCall& call, const NoAttributes&) {
  using T = Compute<S>;
  ChannelRows rows(call.in[0]);
  const S* x = call.in[0].as<S>();
  double *mean = call.out[0].as<double>(), *variance = call.out[1].as<double>();
  int64_t pieces = std::min(rows.pieces(), std::max<int64_t>(rows.count, 1));
  int64_t each = statistics_scratch<S>(call, {}) / rows.pieces();
  auto moments_of = [&](int64_t piece) {
    ScratchCursor scratch(static_cast<char*>(call.scratch) + piece * each);
    return Moments<T>(scratch, rows);
  };
  if (rows.pixels == 0) {
    std::fill_n(mean, rows.channels, 0.0);
    std::fill_n(variance, rows.channels, 0.0);
    return;
  }
  parallel_pieces(rows.count, pieces, [&](int64_t piece, int64_t first, int64_t last) {
    Moments<T> moments = moments_of(piece);
    int64_t begin = rows.start(first);
    moments.choose_shift(x + begin, rows, (rows.start(last) - begin) / rows.channels);
    moments.sums.clear(rows);
    for_row_groups<T>(
        rows, first, last,
        [&](auto group, int64_t at, int64_t width) {
          moments.template add<group()>(x + at, rows.length, width);
        },
        [&] { moments.sums.flush(rows); });
  });
  join<T>(rows, pieces, moments_of, mean, variance);
}

template <class S>
int64_t normalize_scratch(const KernelCall& call, const kernel::BatchNormAttributes&) {
  ScratchCursor scratch(nullptr);
  NormCoefficients<Compute<S>>(scratch, ChannelRows(call.in[0]));
  return scratch.used();
}

template <class S, Activation activation, bool kResidual, bool kStream>
void normalize_rows(const KernelCall& call, const ChannelRows& rows,
                    const NormCoefficients<Compute<S>>& by) {
  using T = Compute<S>;
  const S *x = call.in[0].as<S>(), *residual = call.in[5].as<S>();
  S* y = call.out[0].as<S>();
  for_rows_backwards(rows, [=](int64_t at, int64_t width) {
    for_lanes<T>(width, [=]<class V>(int64_t i) {
      V value = normalized(load<V>(x + at + i), load<V>(by.mean + i), load<V>(by.scale + i),
                           load<V>(by.shift + i));
      if constexpr (kResidual) value += load<V>(residual + at + i);
      put<kStream>(y + at + i, activate<activation>(value));
    });
  });
}

template <class S, Activation activation>
void normalize_with(const KernelCall& call, const ChannelRows& rows,
                    const NormCoefficients<Compute<S>>& by) {
  const S* y = call.out[0].as<S>();
  const bool residual = call.in[5].present;
  const bool in_place = y == call.in[0].as<S>() || (residual && y == call.in[5].as<S>());
  const bool stream = !in_place && worth_streaming(rows, y);
  if (residual && stream)
    normalize_rows<S, activation, true, true>(call, rows, by);
  else if (residual)
    normalize_rows<S, activation, true, false>(call, rows, by);
  else if (stream)
    normalize_rows<S, activation, false, true>(call, rows, by);
  else
    normalize_rows<S, activation, false, false>(call, rows, by);
}

template <class S>
void normalize(const KernelCall& call, const kernel::BatchNormAttributes& attributes) {
  ChannelRows rows(call.in[0]);
  ScratchCursor scratch(call.scratch);
  NormCoefficients<Compute<S>> by(scratch, rows);
  by.set(rows, call.in[1], call.in[2], call.in[3], call.in[4], attributes.epsilon);
  switch (attributes.activation) {
    case Activation::none:
      return normalize_with<S, Activation::none>(call, rows, by);
    case Activation::relu:
      return normalize_with<S, Activation::relu>(call, rows, by);
    case Activation::relu6:
      return normalize_with<S, Activation::relu6>(call, rows, by);
    case Activation::hardswish:
      return normalize_with<S, Activation::hardswish>(call, rows, by);
  }
}

template <class T>
void update_running_statistics(const KernelCall& call,
                               const kernel::RunningStatisticsAttributes& by) {
  const double *mean = call.in[0].as<double>(), *variance = call.in[1].as<double>();
  const T* start = call.in[2].as<T>();
  T *running_mean = call.out[0].as<T>(), *running_var = call.out[1].as<T>();
  if (by.before > 0 && by.momentum == 0) return;
  for (int64_t c = 0; c < call.out[0].numel(); ++c)
    if (by.before > 0)
      pool_running(by, mean[c], variance[c], static_cast<double>(start[c]), running_mean[c],
                   running_var[c]);
    else
      move_running(by, mean[c], variance[c], running_mean[c], running_var[c]);
}

template <class S>
void register_for() {
  constexpr DeviceType kCpu = DeviceType::cpu;
  constexpr Dtype kDtype = dtype_of<S>;
  register_kernel(kernel::batch_norm_statistics, kCpu, kDtype, statistics<S>,
                  statistics_scratch<S>);
  register_kernel(kernel::batch_norm, kCpu, kDtype, normalize<S>, normalize_scratch<S>);
}

template <class T>
void register_running() {
  register_kernel(kernel::running_statistics, DeviceType::cpu, dtype_of<T>,
                  update_running_statistics<T>);
}

}  // namespace

void register_batch_norm() {
  register_for<float>();
  register_for<double>();
  register_for<BFloat16>();
  register_for<Float16>();
  register_running<float>();
  register_running<double>();
}

}  // namespace brim::cpu
