// Which tiles a convolution by Winograd's method takes.
#pragma once

#include <type_traits>

#include "brim/ops/cpu/winograd.h"

namespace brim::cpu::winograd {

/// Tiles of kOut x kOut outputs, as a type to choose a template by.
template <int kOut>
using TileOf = std::integral_constant<int, kOut>;

/// `body(TileOf<2>{})` or `body(TileOf<4>{})`, as `outputs_of_tile` says.
template <class Body>
decltype(auto) with_tile(const ConvShape& shape, ConvPass pass, const Body& body) {
  return outputs_of_tile(shape, pass) == 4 ? body(TileOf<4>{}) : body(TileOf<2>{});
}

/// Of a weight gradient: is there enough to share among threads, and the scratch not too much?
template <int kOut>
bool is_weight_gradient_worth_it(const ConvShape& shape);
extern template bool is_weight_gradient_worth_it<2>(const ConvShape&);
extern template bool is_weight_gradient_worth_it<4>(const ConvShape&);

}  // namespace brim::cpu::winograd
