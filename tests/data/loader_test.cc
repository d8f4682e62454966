// Proves that batches are the same bytes whatever the workers and the timing, that host memory is
// fixed, and that bad images, early ends and slow consumers are handled. Runs under tsan.
#include "brim/data/loader.h"

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

#include "brim/base/error.h"
#include "brim/base/parallel.h"
#include "brim/base/random.h"

using namespace brim;
using namespace brim::data;

namespace {

constexpr int kSize = 6;

/// Images of noise, of which some may be bad and some labels wrong. Counts what is read.
class Fake : public Dataset {
 public:
  explicit Fake(int64_t size, std::set<int64_t> bad = {}, std::set<int64_t> mislabelled = {})
      : size_(size), bad_(std::move(bad)), mislabelled_(std::move(mislabelled)) {}

  int64_t size() const override { return size_; }
  const std::vector<std::string>& class_names() const override { return names_; }
  int64_t label(int64_t index) const override { return mislabelled_.count(index) ? 3 : index % 3; }
  std::string describe(int64_t index) const override { return "fake/" + std::to_string(index); }

  Image read(int64_t index, int /*target*/) const override {
    reads.fetch_add(1);
    // Uneven work, so that workers finish out of order.
    auto pause = std::chrono::microseconds(slow ? 2000 : mix64(static_cast<uint64_t>(index)) % 60);
    std::this_thread::sleep_for(pause);
    if (bad_.count(index)) raise<FileError>("fake", "'{}' is bad", describe(index));
    Image image(kSize + 2, kSize + 1);
    for (size_t i = 0; i < image.pixels.size(); ++i)
      image.pixels[i] = static_cast<uint8_t>(mix64(static_cast<uint64_t>(index) << 20 | i));
    return image;
  }

  mutable std::atomic<int64_t> reads{0};
  bool slow = false;

 private:
  int64_t size_;
  std::set<int64_t> bad_, mislabelled_;
  std::vector<std::string> names_{"a", "b", "c"};
};

/// A copy of a batch, to compare.
struct Copy {
  int64_t first, count;
  std::vector<uint8_t> pixels;
  std::vector<int64_t> labels;
  friend bool operator==(const Copy&, const Copy&) = default;
};

Copy copy_of(const Batch& batch) {
  return {batch.first_sample(),
          batch.count(),
          {batch.pixels().begin(), batch.pixels().end()},
          {batch.labels().begin(), batch.labels().end()}};
}

std::vector<Copy> epoch_of(Loader& loader, int64_t epoch) {
  std::vector<Copy> copies;
  loader.start_epoch(epoch);
  while (std::optional<Batch> batch = loader.next()) copies.push_back(copy_of(*batch));
  return copies;
}

LoaderOptions options_of(int64_t batch, int workers) {
  return {.batch = batch,
          .size = kSize,
          .workers = workers,
          .augment = {.kind = Augment::Kind::random_resized_crop, .flip = true}};
}

/// Reads the epoch; the error that ends it, and how many batches came before.
std::pair<std::string, int> failure_of(Loader& loader) {
  int batches = 0;
  try {
    while (loader.next()) ++batches;
    return {"", batches};
  } catch (const Error& error) {
    return {error.what(), batches};
  }
}

}  // namespace

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

TEST_CASE("the end of an epoch stays the end") {
  Loader loader(std::make_shared<Fake>(10), options_of(10, 2));
  CHECK(epoch_of(loader, 0).size() == 1);
  CHECK(!loader.next());
  CHECK(!loader.next());
}

TEST_CASE("the first bad image in the epoch's order is the error, in its batch") {
  for (int workers : {0, 1, 2, 5}) {
    CAPTURE(workers);
    LoaderOptions options = options_of(30, workers);
    options.shuffle = false;
    Loader loader(std::make_shared<Fake>(100, std::set<int64_t>{58, 43, 99}), options);
    loader.start_epoch(0);
    CHECK(failure_of(loader) == std::pair<std::string, int>("fake: 'fake/43' is bad", 1));
    // Again the same, until another epoch begins.
    CHECK(failure_of(loader) == std::pair<std::string, int>("fake: 'fake/43' is bad", 0));
    loader.start_epoch(0);
    CHECK(failure_of(loader).second == 1);
  }
}

TEST_CASE("a label that is no class is named, also where bad images are skipped") {
  for (bool skip : {false, true}) {
    LoaderOptions options = options_of(10, 2);
    options.shuffle = false;
    options.skip_bad_images = skip;
    Loader loader(std::make_shared<Fake>(40, std::set<int64_t>{}, std::set<int64_t>{27}), options);
    loader.start_epoch(0);
    CHECK(failure_of(loader) == std::pair<std::string, int>(
                                    "loader: expected labels from 0 to 2, got 3 for 'fake/27'", 2));
  }
}

TEST_CASE("skipped images are replaced by the next good one, and counted") {
  const std::set<int64_t> bad{3, 4, 39};
  std::vector<std::vector<Copy>> runs;
  for (int workers : {0, 1, 2, 5}) {
    CAPTURE(workers);
    LoaderOptions options{
        .batch = 10, .size = kSize, .workers = workers, .shuffle = false, .skip_bad_images = true};
    Loader loader(std::make_shared<Fake>(40, bad), options);
    runs.push_back(epoch_of(loader, 0));
    CHECK(loader.skipped_images() == 3);
    CHECK(loader.first_skipped() == "fake: 'fake/3' is bad");
    epoch_of(loader, 1);
    CHECK(loader.skipped_images() == 3);  // the same ones
  }
  for (const auto& run : runs) CHECK(run == runs[0]);

  Loader good(std::make_shared<Fake>(40), {.batch = 10, .size = kSize, .shuffle = false});
  auto expected = epoch_of(good, 0);
  const size_t bytes = kSize * kSize * 3;
  auto image = [&](const std::vector<Copy>& run, size_t index) {
    auto begin = run[index / 10].pixels.begin() + static_cast<ptrdiff_t>(index % 10 * bytes);
    return std::vector<uint8_t>(begin, begin + static_cast<ptrdiff_t>(bytes));
  };
  for (auto [place, source] : {std::pair<size_t, size_t>{3, 5}, {4, 5}, {39, 0}, {6, 6}}) {
    CHECK(image(runs[0], place) == image(expected, source));
    CHECK(runs[0][place / 10].labels[place % 10] == static_cast<int64_t>(source % 3));
  }
}

TEST_CASE("a dataset that enters a parallel loop in a worker is caught") {
  struct Parallel final : Fake {
    Parallel() : Fake(20) {}
    Image read(int64_t index, int target) const override {
      parallel_for(10, 1, [](int64_t, int64_t) {});
      return Fake::read(index, target);
    }
  };
  Loader loader(std::make_shared<Parallel>(), options_of(10, 2));
  loader.start_epoch(0);
  CHECK_THROWS_AS(loader.next(), InternalError);
}

TEST_CASE("only skipped images of batches that were handed out are counted") {
  LoaderOptions options = options_of(10, 3);
  options.shuffle = false;
  options.skip_bad_images = true;
  Loader loader(std::make_shared<Fake>(60, std::set<int64_t>{5, 15, 25}), options);
  loader.start_epoch(0);
  CHECK(loader.skipped_images() == 0);
  loader.next();
  CHECK(loader.skipped_images() == 1);
  loader.next();
  CHECK(loader.skipped_images() == 2);
}

TEST_CASE("where every image is bad, skipping ends in an error") {
  std::set<int64_t> all;
  for (int64_t i = 0; i < 12; ++i) all.insert(i);
  for (int workers : {0, 3}) {
    LoaderOptions options = options_of(4, workers);
    options.shuffle = false;
    options.skip_bad_images = true;
    Loader loader(std::make_shared<Fake>(12, all), options);
    loader.start_epoch(0);
    CHECK(failure_of(loader).first ==
          "loader: none of the 12 images can be read; the first error: fake: 'fake/0' is bad");
  }
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
