// The ten outlines behind `data/shapes.h`, as signed distance functions: each says how far a point
// lies outside of one shape. Pure functions, so loader threads call them at once. For images use
// `data::Shapes`, which places, turns, stretches and colours them: nothing else but its tests needs
// this header.
#pragma once

namespace brim::data {

struct Point {
  float x = 0, y = 0;
};

/// A signed distance to a shape's outline: negative inside, in units of the shape, which reaches
/// no further than `kOutlineReach` from the origin. Near corners a lower bound of the distance,
/// which is enough to draw with soft edges.
using Outline = float (*)(Point);

inline constexpr int kOutlines = 10;
inline constexpr float kOutlineReach = 1.1f;

struct NamedOutline {
  const char* name;
  Outline outline;
};

/// The ten outlines, sorted by name; `index` in [0, kOutlines).
const NamedOutline& outline(int index);

}  // namespace brim::data
