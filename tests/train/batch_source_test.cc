// Proves that a source of batches can begin in the middle of an epoch, with what it would have
// given there, and names a place that the epoch does not have.
#include "brim/train/batch_source.h"

#include <doctest/doctest.h>

#include "brim/data/shapes.h"

using namespace brim;

namespace {

using Pixels = std::vector<uint8_t>;

std::vector<Pixels> rest_of(BatchSource& source, int64_t epoch, int64_t first_batch) {
  std::vector<Pixels> batches;
  source.start_epoch(epoch, first_batch);
  while (std::optional<HostBatch> batch = source.next())
    batches.emplace_back(batch->pixels.begin(), batch->pixels.end());
  return batches;
}

void check_rests(BatchSource& source) {
  const std::vector<Pixels> all = rest_of(source, 1, 0);
  REQUIRE(static_cast<int64_t>(all.size()) == source.batches());
  for (int64_t first = 0; first <= source.batches(); ++first)
    CHECK(rest_of(source, 1, first) == std::vector<Pixels>(all.begin() + first, all.end()));
  CHECK_THROWS_WITH_AS(source.start_epoch(1, 4),
                       "batch source: expected a first batch from 0 to 3, got 4", ValueError);
  CHECK_THROWS_WITH_AS(source.start_epoch(1, -1),
                       "batch source: expected a first batch from 0 to 3, got -1", ValueError);
  CHECK_THROWS_WITH_AS(source.start_epoch(-1),
                       "batch source: expected an epoch of at least 0, got -1", ValueError);
}

}  // namespace

TEST_CASE("a loader goes on in the middle of an epoch") {
  data::Loader loader(std::make_shared<data::Shapes>(data::ShapesOptions{.count = 11, .size = 16}),
                      {.batch = 4, .size = 16, .augment = {.flip = true}});
  LoaderSource source(loader);
  CHECK(rest_of(source, 0, 0) != rest_of(source, 1, 0));
  check_rests(source);
}

TEST_CASE("a synthetic batch is given as often as the epoch has left") {
  SyntheticSource source({.count = 2, .size = 8}, /*batches=*/3);
  check_rests(source);
}
