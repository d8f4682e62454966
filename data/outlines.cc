#include "brim/data/outlines.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace brim::data {
namespace {

// Sizes are chosen so that all ten cover similar areas.

float length(float x, float y) { return std::sqrt(x * x + y * y); }

float box(float x, float y, float half_width, float half_height) {
  return std::max(std::abs(x) - half_width, std::abs(y) - half_height);
}

float circle(Point p) { return length(p.x, p.y) - 0.8f; }

float ring(Point p) { return std::abs(length(p.x, p.y) - 0.72f) - 0.23f; }

float crescent(Point p) {
  return std::max(length(p.x, p.y) - 0.95f, 0.75f - length(p.x - 0.45f, p.y));
}

float square(Point p) { return box(p.x, p.y, 0.72f, 0.72f); }

float cross(Point p) { return std::min(box(p.x, p.y, 0.95f, 0.3f), box(p.x, p.y, 0.3f, 0.95f)); }

float triangle(Point p) {
  // Normals at -90, 30 and 150 degrees.
  float slanted = 0.8660254f * std::abs(p.x) + 0.5f * p.y;
  return std::max(-p.y, slanted) - 0.53f;
}

/// Distances to the five sides of a regular pentagon around the origin, less its apothem.
std::array<float, 5> five_sides(Point p) {
  constexpr std::array<Point, 5> kNormals{{{0, -1},
                                           {0.95105652f, -0.30901699f},
                                           {0.58778525f, 0.80901699f},
                                           {-0.58778525f, 0.80901699f},
                                           {-0.95105652f, -0.30901699f}}};
  std::array<float, 5> distances;
  for (int i = 0; i < 5; ++i) distances[i] = kNormals[i].x * p.x + kNormals[i].y * p.y;
  return distances;
}

float pentagon(Point p) { return std::ranges::max(five_sides(p)) - 0.74f; }

float star(Point p) {
  // A point lies in the five-pointed star when at most one of the sides of its inner pentagon
  // has it outside: the second largest distance decides.
  auto sides = five_sides(p);
  std::ranges::nth_element(sides, sides.begin() + 3);
  return sides[3] - 0.33f;
}

float heart(Point p) {
  // A square that stands on its corner, and a half circle on each upper side.
  constexpr float kHalf = 0.5f, kTurn = 0.70710678f;
  float x = (p.x - p.y - 0.12f) * kTurn, y = (p.x + p.y + 0.12f) * kTurn;
  float lobes = std::min(length(x, y + kHalf), length(x - kHalf, y)) - kHalf;
  return std::min(box(x, y, kHalf, kHalf), lobes);
}

float arrow(Point p) {
  float shaft = box(p.x + 0.4f, p.y, 0.55f, 0.2f);
  float head = std::max(-p.x, 0.70710678f * (p.x + std::abs(p.y)) - 0.65f);
  return std::min(shaft, head);
}

constexpr std::array<NamedOutline, kOutlines> kTable{{{"arrow", arrow},
                                                      {"circle", circle},
                                                      {"crescent", crescent},
                                                      {"cross", cross},
                                                      {"heart", heart},
                                                      {"pentagon", pentagon},
                                                      {"ring", ring},
                                                      {"square", square},
                                                      {"star", star},
                                                      {"triangle", triangle}}};

}  // namespace

const NamedOutline& outline(int index) { return kTable[static_cast<size_t>(index)]; }

}  // namespace brim::data
