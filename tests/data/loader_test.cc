// Proves that batches are the same bytes whatever the workers and the timing, that host memory is
// fixed, and that early ends and slow consumers are handled. Runs under tsan.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "brim/tests/data/fake_dataset.h"

using namespace brim;
using namespace brim::data;

TEST_CASE("batches are the same bytes for any number of workers") {
  auto dataset = std::make_shared<Fake>(103);
  for (bool shuffle : {true, false}) {
    std::vector<std::vector<Copy>> runs;
    for (int workers : {0, 1, 2, 5}) {
      LoaderOptions options = options_of(20, workers);
      options.shuffle = shuffle;
      Loader loader(dataset, options);
      runs.push_back(epoch_of(loader, 4));
    }
    for (const auto& run : runs) CHECK(run == runs[0]);
  }
}

TEST_CASE("a batch holds what the transforms say") {
  auto dataset = std::make_shared<Fake>(11);
  Loader loader(dataset, {.batch = 4, .size = kSize, .shuffle = false});
  loader.start_epoch(0);
  for (int64_t at = 0; std::optional<Batch> batch = loader.next(); at += 4) {
    CHECK(batch->first_sample() == at);
    CHECK(batch->size() == kSize);
    CHECK(reinterpret_cast<uintptr_t>(batch->pixels().data()) % 64 == 0);
    for (int64_t i = 0; i < batch->count(); ++i) {
      std::vector<uint8_t> expected(kSize * kSize * 3);
      prepare(dataset->read(at + i, 0), kSize, {}, RandomStream(RandomKey{}), expected.data());
      auto pixels =
          batch->pixels().subspan(static_cast<size_t>(i) * expected.size(), expected.size());
      CHECK(std::ranges::equal(pixels, expected));
      CHECK(batch->labels()[static_cast<size_t>(i)] == (at + i) % 3);
    }
  }
}

TEST_CASE("epochs differ, repeat exactly, and follow the seed") {
  auto dataset = std::make_shared<Fake>(40);
  LoaderOptions options = options_of(10, 2);
  Loader loader(dataset, options);
  auto first = epoch_of(loader, 0), second = epoch_of(loader, 1);
  CHECK(first != second);
  CHECK(epoch_of(loader, 0) == first);
  Loader again(dataset, options);
  CHECK(epoch_of(again, 1) == second);
  options.seed = 1;
  Loader other(dataset, options);
  CHECK(epoch_of(other, 0) != first);
}

TEST_CASE("an image is augmented by its own number, not by its place or batch") {
  auto dataset = std::make_shared<Fake>(30);
  auto all_images = [&](int64_t batch, bool shuffle) {
    LoaderOptions options = options_of(batch, 2);
    options.shuffle = shuffle;
    Loader loader(dataset, options);
    std::multiset<std::vector<uint8_t>> images;
    for (const Copy& copy : epoch_of(loader, 7))
      for (int64_t i = 0; i < copy.count; ++i)
        images.emplace(copy.pixels.begin() + i * kSize * kSize * 3,
                       copy.pixels.begin() + (i + 1) * kSize * kSize * 3);
    return images;
  };
  CHECK(all_images(7, true) == all_images(30, false));
}

TEST_CASE("the last batch is smaller, or left out") {
  auto dataset = std::make_shared<Fake>(25);
  LoaderOptions options = options_of(10, 2);
  Loader whole(dataset, options);
  CHECK(whole.batches() == 3);
  CHECK(whole.images() == 25);
  auto batches = epoch_of(whole, 0);
  REQUIRE(batches.size() == 3);
  CHECK(batches[2].count == 5);
  CHECK(batches[2].pixels.size() == 5 * kSize * kSize * 3);
  CHECK(batches[2].labels.size() == 5);

  options.drop_last = true;
  Loader even(dataset, options);
  CHECK(even.batches() == 2);
  CHECK(even.images() == 20);
  auto dropped = epoch_of(even, 0);
  batches.pop_back();
  CHECK(dropped == batches);
}

TEST_CASE("batches hand back their slots, from any thread, also after the loader") {
  auto dataset = std::make_shared<Fake>(40);
  auto loader = std::make_unique<Loader>(dataset, options_of(10, 2));
  loader->start_epoch(0);
  std::optional<Batch> first = loader->next(), second = loader->next();
  Copy kept = copy_of(*second);
  std::jthread([batch = std::move(*first)]() mutable { Batch moved = std::move(batch); }).join();
  first.reset();
  CHECK(loader->next()->first_sample() == 20);
  *second = std::move(*loader->next());
  CHECK(second->first_sample() == 30);
  kept = copy_of(*second);
  loader.reset();
  CHECK(copy_of(*second) == kept);
}

TEST_CASE("holding every slot is an error, not a wait for ever") {
  for (int workers : {0, 2}) {
    LoaderOptions options = options_of(10, workers);
    options.slots = 2;
    Loader loader(std::make_shared<Fake>(40), options);
    loader.start_epoch(0);
    std::optional<Batch> first = loader.next(), second = loader.next();
    CHECK_THROWS_WITH_AS(loader.next(),
                         "loader: the caller holds all 2 slots: release a Batch, or ask for more "
                         "slots",
                         ValueError);
    first.reset();
    CHECK(loader.next()->first_sample() == 20);
  }
}

TEST_CASE("slots are a fixed amount of memory, and bound what is read ahead") {
  auto dataset = std::make_shared<Fake>(200);
  LoaderOptions options = options_of(10, 3);
  options.slots = 4;
  Loader loader(dataset, options);
  CHECK(loader.host_bytes() == 4 * (10 * kSize * kSize * 3 + 8 /* to 64 */ + 128));
  loader.start_epoch(0);
  std::optional<Batch> held = loader.next();
  // A slow consumer: workers fill three more slots and stop.
  for (int i = 0; i < 200 && dataset->reads < 40; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(dataset->reads == 40);
  std::set<const uint8_t*> places{held->pixels().data()};
  held.reset();
  while (std::optional<Batch> batch = loader.next()) places.insert(batch->pixels().data());
  CHECK(dataset->reads == 200);
  CHECK(places.size() <= 4);
}

TEST_CASE("a slow consumer waits for the first batch alone") {
  constexpr int64_t kBatch = 5, kBatches = 8;
  auto dataset = std::make_shared<Fake>(kBatch * kBatches);
  LoaderOptions options = options_of(kBatch, 1);
  options.slots = 4;
  Loader loader(dataset, options);
  loader.start_epoch(0);
  for (int64_t handed_out = 1; handed_out < kBatches; ++handed_out) {
    REQUIRE(loader.next().has_value());
    CHECK(loader.waits() <= 1);
    // A step so long that the only worker begins the batch after the next: it is done with that.
    while (handed_out + 1 < kBatches && dataset->reads <= kBatch * (handed_out + 1))
      std::this_thread::yield();
  }
}

TEST_CASE("without workers every batch is waited for") {
  Loader loader(std::make_shared<Fake>(20), options_of(5, 0));
  CHECK(epoch_of(loader, 0).size() == 4);
  CHECK(loader.waits() == 4);
}

TEST_CASE("one slot is enough") {
  for (int workers : {0, 3}) {
    LoaderOptions options = options_of(10, workers);
    options.slots = 1;
    Loader loader(std::make_shared<Fake>(35), options);
    CHECK(epoch_of(loader, 0).size() == 4);
  }
}

TEST_CASE("a loader can be left at any time") {
  auto dataset = std::make_shared<Fake>(500);
  dataset->slow = true;
  for (int workers : {0, 1, 4})
    for (int batches : {0, 1, 3}) {
      Loader loader(dataset, options_of(8, workers));
      loader.start_epoch(0);
      for (int i = 0; i < batches; ++i) CHECK(loader.next().has_value());
    }
  Loader never_started(dataset, options_of(8, 2));
  CHECK_THROWS_AS(never_started.next(), ValueError);
}

TEST_CASE("an epoch can be started in the middle of another, also while a batch is held") {
  auto dataset = std::make_shared<Fake>(60);
  Loader loader(dataset, options_of(10, 3));
  auto expected = epoch_of(loader, 2);
  loader.start_epoch(1);
  std::optional<Batch> held = loader.next();
  Copy before = copy_of(*held);
  CHECK(epoch_of(loader, 2) == expected);
  CHECK(copy_of(*held) == before);
  loader.start_epoch(5);
  loader.start_epoch(2);
  CHECK(loader.next()->first_sample() == 0);
}

TEST_CASE("an epoch that begins at a later batch goes on with the same bytes") {
  auto dataset = std::make_shared<Fake>(55);
  for (bool shuffle : {true, false})
    for (bool drop_last : {true, false}) {
      LoaderOptions options = options_of(10, 0);
      options.shuffle = shuffle;
      options.drop_last = drop_last;
      Loader whole(dataset, options);
      const std::vector<Copy> all = epoch_of(whole, 3);
      for (int workers : {0, 1, 3}) {
        options.workers = workers;
        Loader loader(dataset, options);
        for (int64_t first = 0; first <= loader.batches(); ++first) {
          CAPTURE(first);
          CHECK(epoch_of(loader, 3, first) == std::vector<Copy>(all.begin() + first, all.end()));
        }
      }
    }
}

TEST_CASE("of the batches before the first nothing is read") {
  auto dataset = std::make_shared<Fake>(55);
  for (int workers : {0, 2}) {
    Loader loader(dataset, options_of(10, workers));
    dataset->reads = 0;
    CHECK(epoch_of(loader, 0, 4).size() == 2);
    CHECK(dataset->reads == 15);
    CHECK(epoch_of(loader, 0, 6).empty());
    CHECK(!loader.next());
    CHECK(dataset->reads == 15);
  }
}

TEST_CASE("a first batch that the epoch does not have is refused, and the epoch goes on") {
  Loader loader(std::make_shared<Fake>(25), options_of(10, 2));
  loader.start_epoch(0);
  for (int64_t first : {int64_t{-1}, int64_t{4}, INT64_MAX}) {
    std::string text = "loader: expected a first batch from 0 to 3, got " + std::to_string(first);
    CHECK_THROWS_WITH_AS(loader.start_epoch(1, first), text.c_str(), ValueError);
  }
  CHECK(loader.next()->first_sample() == 0);
}

TEST_CASE("the end of an epoch stays the end") {
  Loader loader(std::make_shared<Fake>(10), options_of(10, 2));
  CHECK(epoch_of(loader, 0).size() == 1);
  CHECK(!loader.next());
  CHECK(!loader.next());
}

TEST_CASE("options out of range are refused with their value") {
  auto dataset = std::make_shared<Fake>(10);
  auto error_of = [&](LoaderOptions options) -> std::string {
    try {
      Loader loader(dataset, options);
      return "";
    } catch (const ValueError& error) {
      return error.what();
    }
  };
  CHECK(error_of({.batch = 11, .size = 4}) ==
        "loader: the batch of 11 is larger than the dataset of 10 images");
  CHECK(error_of({.batch = 0, .size = 4}) == "loader: expected a batch of at least 1, got 0");
  CHECK(error_of({.batch = 2, .size = 0}) != "");
  CHECK(error_of({.batch = 2, .size = 4, .workers = -1}) != "");
  CHECK(error_of({.batch = 2, .size = 4, .slots = -1}) != "");
  CHECK(error_of({.batch = 2, .size = 4, .augment = {.padding = -1}}) != "");
  CHECK_THROWS_AS(Loader(nullptr, {.batch = 1, .size = 4}), ValueError);
  CHECK_THROWS_AS(Loader(std::make_shared<Fake>(0), {.batch = 1, .size = 4, .clamp_batch = true}),
                  ValueError);
  CHECK_THROWS_AS(Loader(std::make_shared<Fake>(INT64_MAX), {.batch = INT64_MAX, .size = 4}),
                  ValueError);
  Loader loader(dataset, {.batch = 2, .size = 4});
  CHECK_THROWS_AS(loader.start_epoch(-1), ValueError);
}

TEST_CASE("an evaluation's batch may be larger than its dataset") {
  Loader loader(std::make_shared<Fake>(10), {.batch = 64, .size = kSize, .clamp_batch = true});
  CHECK(loader.batches() == 1);
  auto batches = epoch_of(loader, 0);
  REQUIRE(batches.size() == 1);
  CHECK(batches[0].count == 10);
  CHECK(loader.host_bytes() < 4 * 64 * kSize * kSize * 3);
}
