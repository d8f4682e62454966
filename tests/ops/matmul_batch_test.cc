#include "brim/ops/matmul_batch.h"

#include <doctest/doctest.h>

#include <vector>

using namespace brim;

namespace {

struct Sample {
  Shape a, b, y;
  int64_t run;  // products at even distances
};

// The last two axes are those of the matrices.
const std::vector<Sample> kSamples = {
    {{2, 3}, {3, 4}, {2, 4}, 1},
    {{5, 2, 3}, {5, 3, 4}, {5, 2, 4}, 5},
    {{5, 2, 3}, {1, 3, 4}, {5, 2, 4}, 5},
    {{5, 6, 2, 3}, {5, 6, 3, 4}, {5, 6, 2, 4}, 30},
    {{5, 6, 2, 3}, {1, 6, 3, 4}, {5, 6, 2, 4}, 6},  // b begins anew
    {{5, 6, 2, 3}, {5, 1, 3, 4}, {5, 6, 2, 4}, 6},
    {{5, 6, 2, 3}, {1, 1, 3, 4}, {5, 6, 2, 4}, 30},
    {{5, 6, 2, 3}, {5, 6, 3, 4}, {1, 6, 2, 4}, 6},  // summed over the outer axis
    {{5, 6, 2, 3}, {5, 6, 3, 4}, {5, 1, 2, 4}, 1},  // and over the inner one
    {{5, 1, 6, 2, 3}, {5, 1, 6, 3, 4}, {5, 1, 6, 2, 4}, 30},
};

}  // namespace

TEST_CASE("matmul batch: the products of a run lie at even distances, each with its own y") {
  for (const Sample& sample : kSamples) {
    CAPTURE(to_string(sample.a));
    CAPTURE(to_string(sample.b));
    CAPTURE(to_string(sample.y));
    MatmulBatch batch(sample.a, sample.b, sample.y);
    auto run = batch.run();
    CHECK(run.count == sample.run);
    REQUIRE(batch.count() % run.count == 0);
    for (int64_t start = 0; start < batch.count(); start += run.count) {
      auto first = batch.at(start);
      for (int64_t i = 0; i < run.count; ++i) {
        auto place = batch.at(start + i);
        CHECK(place.a == first.a + i * run.a);
        CHECK(place.b == first.b + i * run.b);
        CHECK(place.y == first.y + i * run.y);
        CHECK(place.first == first.first);
        if (i > 0) CHECK(place.y != batch.at(start + i - 1).y);
      }
    }
  }
}

TEST_CASE("matmul batch: each y is begun once, before anything is added to it") {
  for (const Sample& sample : kSamples) {
    MatmulBatch batch(sample.a, sample.b, sample.y);
    std::vector<bool> begun(static_cast<size_t>(numel(sample.y)));
    for (int64_t i = 0; i < batch.count(); ++i) {
      auto place = batch.at(i);
      CHECK(begun[static_cast<size_t>(place.y)] == !place.first);
      begun[static_cast<size_t>(place.y)] = true;
    }
  }
}

TEST_CASE("matmul batch: no matrices, no products") {
  CHECK(MatmulBatch({0, 2, 3}, {0, 3, 4}, {0, 2, 4}).count() == 0);
}
