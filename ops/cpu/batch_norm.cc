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

template <class T>
int64_t bytes_of_moments(const ChannelRows& rows) {
  ScratchCursor scratch(nullptr);
  Moments<T>(scratch, rows);
  return scratch.used();
}

template <class S>
int64_t statistics_scratch(const KernelCall& call, const NoAttributes&) {
  return channel_statistics_scratch<S>(ChannelRows(call.in[0]));
}

template <class S>
void statistics(const KernelCall& call, const NoAttributes&) {
  channel_statistics(ChannelRows(call.in[0]), call.in[0].as<S>(),
                     {call.out[0].as<double>(), call.out[1].as<double>()}, call.scratch);
}

template <class S>
int64_t normalize_scratch(const KernelCall& call, const kernel::BatchNormAttributes&) {
  ScratchCursor scratch(nullptr);
  NormCoefficients<Compute<S>>(scratch, ChannelRows(call.in[0]));
  return scratch.used();
}

template <class S, Activation activation, bool kResidual>
void normalize_rows(const KernelCall& call, const ChannelRows& rows,
                    const NormCoefficients<Compute<S>>& by, bool streaming) {
  const S *x = call.in[0].as<S>(), *residual = call.in[5].as<S>();
  S* y = call.out[0].as<S>();
  for_rows_backwards(rows, [=](int64_t at, int64_t width) {
    put_row(y, at, width, streaming, [=]<class V>(int64_t i) {
      prefetch_ahead(x + at + i);
      if constexpr (kResidual) prefetch_ahead(residual + at + i);
      V value = normalized(load<V>(x + at + i), load<V>(by.mean + i), load<V>(by.scale + i),
                           load<V>(by.shift + i));
      if constexpr (kResidual) value += load<V>(residual + at + i);
      return activate<activation>(value);
    });
  });
}

template <class S, Activation activation>
void normalize_with(const KernelCall& call, const ChannelRows& rows,
                    const NormCoefficients<Compute<S>>& by) {
  const S* y = call.out[0].as<S>();
  const bool residual = call.in[5].present;
  const bool in_place = y == call.in[0].as<S>() || (residual && y == call.in[5].as<S>());
  const bool streaming = !in_place && worth_streaming(rows, y);
  if (residual)
    normalize_rows<S, activation, true>(call, rows, by, streaming);
  else
    normalize_rows<S, activation, false>(call, rows, by, streaming);
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

template <class S>
int64_t channel_statistics_scratch(const ChannelRows& rows) {
  return bytes_of_moments<Compute<S>>(rows) * rows.pieces();
}

template <class S>
void channel_statistics(const ChannelRows& rows, const S* x, const BatchStatistics& to,
                        void* scratch) {
  using T = Compute<S>;
  if (rows.pixels == 0) {
    std::fill_n(to.mean, rows.channels, 0.0);
    std::fill_n(to.variance, rows.channels, 0.0);
    return;
  }
  const int64_t pieces = std::min(rows.pieces(), rows.count), each = bytes_of_moments<T>(rows);
  auto moments_of = [&](int64_t piece) {
    ScratchCursor one(static_cast<char*>(scratch) + piece * each);
    return Moments<T>(one, rows);
  };
  // What they are joined from takes the place of the sums.
  PartMoments parts;
  parts.mean = moments_of(0).sums.total_first;
  parts.square = moments_of(0).sums.total_second;
  parts.parts = pieces;
  parts.channels = rows.channels;
  parts.step = each / static_cast<int64_t>(sizeof(double));
  auto pixels_of = [&](int64_t piece) {
    return (rows.start(rows.count * (piece + 1) / pieces) -
            rows.start(rows.count * piece / pieces)) /
           rows.channels;
  };
  parallel_pieces(rows.count, pieces, [&](int64_t piece, int64_t first, int64_t last) {
    Moments<T> moments = moments_of(piece);
    const int64_t begin = rows.start(first), pixels = pixels_of(piece);
    moments.choose_shift(x + begin, rows, pixels);
    moments.sums.clear(rows);
    for_row_groups<T>(
        rows, first, last,
        [&](auto group, int64_t at, int64_t width) {
          moments.template add<group()>(x + at, rows.length, width);
        },
        [&] { moments.sums.flush(rows); });
    for (int64_t c = 0; c < rows.channels; ++c)
      parts.set(piece, c, static_cast<double>(pixels), static_cast<double>(moments.shift[c]),
                moments.sums.total_first[c], moments.sums.total_second[c]);
  });
  join_moments(parts, pixels_of, to);
}

template int64_t channel_statistics_scratch<float>(const ChannelRows&);
template int64_t channel_statistics_scratch<double>(const ChannelRows&);
template void channel_statistics(const ChannelRows&, const double*, const BatchStatistics&, void*);
template void channel_statistics(const ChannelRows&, const float*, const BatchStatistics&, void*);

void register_batch_norm() {
  register_for<float>();
  register_for<double>();
  register_for<BFloat16>();
  register_for<Float16>();
  register_running<float>();
  register_running<double>();
}

}  // namespace brim::cpu
