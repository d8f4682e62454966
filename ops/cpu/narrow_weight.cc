#include "brim/ops/cpu/narrow_weight.h"

#include "brim/ops/cpu/bfloat16_pairs.h"
#include "brim/ops/cpu/narrow_weight_sums.h"
#include "brim/ops/onednn.h"

namespace brim::cpu {
namespace {

using namespace narrow;

#ifdef __AVX512BW__
/// Two by two (ops/cpu/bfloat16_pairs.h).
struct TwoByTwo {
  using Number = uint32_t;  ///< of two pixels, the first one's in the lower half
  using Sum = Vector<float>;
  using Column = Pairs;
  static constexpr int64_t kPixels = 2;

  /// The vectors of two neighbouring pixels, `step` apart; zeros where there is no second one.
  static Column column(const BFloat16* wide, int64_t step, bool has_second) {
    const auto of = [](const BFloat16* from) {
      return _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
    };
    return first_pairs(of(wide), has_second ? of(wide + step) : __m512i{});
  }
  static Sum add(Sum sum, Number number, Column column) {
    return add_products(sum, number - Column{}, column);
  }
  static const Number* numbers(const BFloat16* narrow, int64_t pixels, int64_t width,
                               Number* room) {
    for (int64_t m = 0; m < pixels; m += 2)
      for (int64_t n = 0; n < width; ++n) {
        const BFloat16* one = narrow + m * width + n;
        const uint32_t second = m + 1 < pixels ? one[width].bits : 0;
        room[m / 2 * width + n] = one->bits | second << 16;
      }
    return room;
  }
};
#endif

#ifdef __AVX512BW__
constexpr bool kCanPair = true;
#else
constexpr bool kCanPair = false;
#endif

/// `body(NarrowWeight)` of the way that is the fastest.
template <class S, class Body>
void with_narrow_weight(const ConvShape& shape, ScratchCursor& scratch, const Body& body) {
  constexpr int64_t kMostPieces = 8;
#ifdef __AVX512BW__
  if constexpr (std::is_same_v<S, BFloat16>)
    if (onednn::has_bfloat16())
      return body(NarrowWeight<S, TwoByTwo>(shape, nullptr, kMostPieces, scratch));
#endif
  body(NarrowWeight<S, OneByOne<S>>(shape, nullptr, kMostPieces, scratch));
}

}  // namespace

template <class S>
bool has_narrow_weight(const ConvShape& shape) {
  constexpr int64_t kFewest = 1024, kMostWide = 256;
  // Where the library has instructions for halves that are not used here, it is faster.
  if (std::is_same_v<S, BFloat16> && !kCanPair && onednn::has_bfloat16()) return false;
  // Slices of a batch of float32 are by the size of x (ops/conv_slices.h): where that is the wide
  // side, there are more of them to add up.
  const int64_t most_narrow = shape.c <= shape.k ? kMostNarrow : kMostNarrow / 2;
  const Sides sides(shape);
  if (shape.groups != 1 || shape.pixels() < kFewest || sides.wide == 0 || sides.wide > kMostWide ||
      sides.wide % kLanes<Vector<Compute<S>>> != 0)
    return false;
  if (!sides.by_windows)
    return sides.narrow > 0 && sides.narrow <= most_narrow && sides.narrow % kNarrow == 0;
  // Measured against the library with these registers only.
  constexpr bool kKnown = kVectorBytes == 32 && std::is_same_v<S, float>;
  return kKnown && shape.r * shape.s > 1 && shape.dilation.w == 1 && sides.narrow > 0 &&
         sides.narrow <= kMostNarrow;
}

template <class S>
int64_t narrow_backward_weight_scratch(const ConvShape& shape) {
  ScratchCursor cursor(nullptr);
  with_narrow_weight<S>(shape, cursor, [](const auto&) {});
  return cursor.used();
}

template <class S>
void narrow_backward_weight(const ConvShape& shape, const S* x, const S* dy, Compute<S>* dweight,
                            void* scratch) {
  ScratchCursor cursor(scratch);
  with_narrow_weight<S>(shape, cursor, [&](const auto& weight) {
    parallel_pieces(shape.pixels(), weight.pieces(),
                    [&](int64_t piece, int64_t begin, int64_t end) {
                      weight.clear(piece);
                      weight.add(/*thread=*/0, piece, x, dy, begin, end);
                    });
    weight.finish(dweight);
  });
}

bool has_narrow_weight_everywhere(const ConvShape& shape) {
  constexpr int64_t kMostOfTile = 8;  // numbers of the narrow side, on any processor
  const Sides sides(shape);
  return shape.is_pointwise() && sides.wide % kWidestFloats == 0 &&
         sides.narrow % kMostOfTile == 0 && has_narrow_weight<float>(shape);
}

#define BRIM_INSTANTIATE(S)                                             \
  template bool has_narrow_weight<S>(const ConvShape&);                 \
  template int64_t narrow_backward_weight_scratch<S>(const ConvShape&); \
  template void narrow_backward_weight(const ConvShape&, const S*, const S*, Compute<S>*, void*);
BRIM_INSTANTIATE(float)
BRIM_INSTANTIATE(double)
BRIM_INSTANTIATE(BFloat16)
BRIM_INSTANTIATE(Float16)
#undef BRIM_INSTANTIATE

}  // namespace brim::cpu
