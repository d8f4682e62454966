#include "brim/optim/cpu/square_sum.h"

#include <numeric>

#include "brim/optim/cpu/factored_gradient.h"
#include "brim/optim/cpu/gathered_loop.h"
#include "brim/optim/cpu/register.h"
#include "brim/optim/optimizer.h"

namespace brim::cpu {
namespace {

/// The pieces of `sum_squares`, with their sums.
template <class T, class S>
struct Pieces {
  const S* x;
  int64_t size, pieces;
  optim::GradientReader<T> read;
  double* sum;
  double sums[kMostSquareSumPieces];

  void operator()(int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece)
      sums[piece] =
          sum_squares_of_piece<kSquares>(x, size, piece, pieces, read, [](int64_t, int64_t) {});
  }
  void finish() const { *sum = std::accumulate(sums, sums + pieces, 0.0); }
};

/// Of factors, for the sum alone.
struct NoUpdate {
  void fetch(int64_t, int64_t) const {}
  void operator()(int64_t, int64_t, const void*) const {}
};

template <class T, class S = T>
void square_sum(const KernelCall& call, const NoAttributes&) {
  const auto read = optim::GradientReader<T>::from(call.in[1].as<double>());
  if constexpr (std::is_same_v<T, S>)
    if (has_factors(call)) return update_from_factors(call, call.out[0], read, NoUpdate{});
  const int64_t size = call.in[0].numel();
  const Pieces<T, S> pieces{.x = call.in[0].as<S>(),
                            .size = size,
                            .pieces = square_sum_pieces(size),
                            .read = read,
                            .sum = call.out[0].as<double>(),
                            .sums = {}};
  GatheredLoop<Pieces<T, S>>::of_this_thread().add(pieces, size, pieces.pieces, kSquareSumPiece);
}

}  // namespace

void register_square_sum() {
  register_kernel(kernel::square_sum, DeviceType::cpu, Dtype::float32, square_sum<float>);
  register_kernel(kernel::square_sum, DeviceType::cpu, Dtype::bfloat16,
                  square_sum<float, BFloat16>);
  register_kernel(kernel::square_sum, DeviceType::cpu, Dtype::float64, square_sum<double>);
}

}  // namespace brim::cpu
