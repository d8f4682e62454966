// Element types of tensors, and the ways between a `Dtype` and its C++ type. `convert` is for one
// element; for a tensor use `cast`, or `convert_to` where no gradient is wanted. `visit_dtype`
// compiles its body for all nine types, which suits code that moves values. Kernels that compute
// exist for float32 and float64; halves run through the former where they have none
// (core/launch.h).
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include "brim/base/error.h"
#include "brim/base/text_formatter.h"
#include "brim/core/half.h"

namespace brim {

enum class Dtype : uint8_t {
  float32,
  float64,
  float16,
  bfloat16,
  int8,
  uint8,
  int32,
  int64,
  boolean,
};
inline constexpr int kDtypes = 9;

std::string_view to_string(Dtype dtype);
/// Bytes of one element.
int64_t size_of(Dtype dtype);

constexpr bool is_floating(Dtype dtype) { return dtype <= Dtype::bfloat16; }
constexpr bool is_low_precision(Dtype dtype) {
  return dtype == Dtype::float16 || dtype == Dtype::bfloat16;
}
/// Distance from 1 to the next value; 0 for whole numbers.
double epsilon(Dtype dtype);

/// The Dtype of a C++ type: `dtype_of<float> == Dtype::float32`.
template <class T>
inline constexpr Dtype dtype_of = [] {
  if constexpr (std::is_same_v<T, float>)
    return Dtype::float32;
  else if constexpr (std::is_same_v<T, double>)
    return Dtype::float64;
  else if constexpr (std::is_same_v<T, Float16>)
    return Dtype::float16;
  else if constexpr (std::is_same_v<T, BFloat16>)
    return Dtype::bfloat16;
  else if constexpr (std::is_same_v<T, int8_t>)
    return Dtype::int8;
  else if constexpr (std::is_same_v<T, uint8_t>)
    return Dtype::uint8;
  else if constexpr (std::is_same_v<T, int32_t>)
    return Dtype::int32;
  else if constexpr (std::is_same_v<T, int64_t>)
    return Dtype::int64;
  else if constexpr (std::is_same_v<T, bool>)
    return Dtype::boolean;
  else
    static_assert(!sizeof(T), "no dtype for this type");
}();

/// Calls `body.operator()<T>()` with the C++ type of `dtype`.
template <class Body>
decltype(auto) visit_dtype(Dtype dtype, const Body& body) {
  switch (dtype) {
    case Dtype::float32:
      return body.template operator()<float>();
    case Dtype::float64:
      return body.template operator()<double>();
    case Dtype::float16:
      return body.template operator()<Float16>();
    case Dtype::bfloat16:
      return body.template operator()<BFloat16>();
    case Dtype::int8:
      return body.template operator()<int8_t>();
    case Dtype::uint8:
      return body.template operator()<uint8_t>();
    case Dtype::int32:
      return body.template operator()<int32_t>();
    case Dtype::int64:
      return body.template operator()<int64_t>();
    case Dtype::boolean:
      return body.template operator()<bool>();
  }
  raise<InternalError>("dtype", "unknown dtype {}", static_cast<int>(dtype));
}

/// The float next to `value`, towards zero, with its last bit set, or `value` where it is a float.
/// Rounding that to a half type is rounding `value` itself, once (Boldo and Melquiond, "Emulation
/// of FMA and correctly rounded sums: proved algorithms using rounding to odd", IEEE TC 57, 2008).
template <class From>
constexpr float round_to_odd(From value) {
  using Exact = std::conditional_t<std::is_integral_v<From>, int64_t, From>;
  auto exact = static_cast<Exact>(value);
  auto nearest = static_cast<float>(value);
  bool beyond = std::is_integral_v<From> && nearest >= 0x1p63f;  // the one float that is no int64
  Exact back = beyond ? exact : static_cast<Exact>(nearest);
  if (!beyond && !(back > exact || back < exact)) return nearest;  // no error, or NaN
  auto bits = std::bit_cast<uint32_t>(nearest);
  if (beyond || (back > exact) == (exact > 0)) --bits;  // it was rounded away from zero
  return std::bit_cast<float>(bits | 1);
}

/// The whole number towards zero; the nearest there is beyond the range, and 0 for NaN.
template <class To, class From>
constexpr To truncate(From value) {
  using Limits = std::numeric_limits<To>;
  constexpr auto low = static_cast<From>(Limits::min());  // 0 or a power of two: exact
  constexpr From above = 2 * static_cast<From>(Limits::max() / 2 + 1);
  if (value >= above) return Limits::max();
  if (value <= low) return Limits::min();
  return value == value ? static_cast<To>(value) : To(0);
}

/// Converts one element: to the nearest of `To` (even on a tie) where that is floating; from
/// floating to whole numbers as `truncate`; between those modulo 2^bits; to bool whether it is not
/// 0.
template <class To, class From>
constexpr To convert(From value) {
  if constexpr (std::is_same_v<To, From>)
    return value;
  else if constexpr (std::is_same_v<From, Float16> || std::is_same_v<From, BFloat16>)
    return convert<To>(static_cast<float>(value));
  else if constexpr (std::is_same_v<To, Float16> || std::is_same_v<To, BFloat16>)
    return To(round_to_odd(value));
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To> &&
                     !std::is_same_v<To, bool>)
    return truncate<To>(value);
  else
    return static_cast<To>(value);
}

}  // namespace brim

template <>
struct fmt::formatter<brim::Dtype> : brim::TextFormatter<brim::Dtype> {};
