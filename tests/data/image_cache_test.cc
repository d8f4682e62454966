// Images that stay in memory once they were read: which, how often files are opened, and that
// nothing else changes.
#include "brim/data/image_cache.h"

#include <doctest/doctest.h>

#include <thread>

#include "brim/data/image_folder.h"
#include "brim/tests/data/fake_dataset.h"
#include "brim/tests/support/encode_image.h"
#include "brim/tests/support/temp_folder.h"

namespace brim::data {
namespace {

constexpr int64_t kImageBytes = (kSize + 2) * (kSize + 1) * 3;

Box all_of(int width, int height) { return {0, 0, width, height}; }

std::vector<Copy> epochs_of(std::shared_ptr<const Dataset> dataset, int workers) {
  Loader loader(std::move(dataset), options_of(8, workers));
  std::vector<Copy> batches;
  for (int64_t epoch = 0; epoch < 3; ++epoch)
    for (Copy& batch : epoch_of(loader, epoch)) batches.push_back(std::move(batch));
  return batches;
}

}  // namespace

TEST_CASE("an image is read once, and is the same every time") {
  const auto fake = std::make_shared<const Fake>(5);
  const ImageCache cache(fake, 5 * kImageBytes);
  for (int round = 0; round < 3; ++round)
    for (int64_t i = 0; i < 5; ++i) {
      CHECK(cache.read(i, 0) == Fake(5).read(i, 0));
      CHECK(cache.label(i) == fake->label(i));
    }
  CHECK(fake->reads == 5);
  CHECK(cache.bytes() == 5 * kImageBytes);
  CHECK(cache.size() == 5);
  CHECK(cache.describe(2) == "fake/2");
}

TEST_CASE("where not all have room none is kept, and parts are read as parts") {
  const auto fake = std::make_shared<const Fake>(5);
  const ImageCache cache(fake, 5 * kImageBytes - 1);
  for (int round = 0; round < 2; ++round)
    for (int64_t i = 0; i < 5; ++i) cache.read_part(i, 0, all_of);
  CHECK(fake->reads == 10);
  CHECK(cache.bytes() == 0);
}

// The last images are larger than the first, and so many that not all fit.
TEST_CASE("what has no room is read in part, and what was kept before it stays") {
  struct Growing final : Dataset {
    int64_t size() const override { return 6; }
    const std::vector<std::string>& class_names() const override { return names; }
    int64_t label(int64_t) const override { return 0; }
    std::string describe(int64_t) const override { return ""; }
    Image read(int64_t index, int) const override {
      ++reads;
      return Image(10, static_cast<int>(index < 2 ? 1 : 10));
    }
    ImagePart read_part(int64_t index, int, const ChooseBox& wanted) const override {
      ++parts;
      return {Image(1, 1), wanted(10, index < 2 ? 1 : 10), 10, index < 2 ? 1 : 10};
    }
    std::vector<std::string> names{"a"};
    mutable int reads = 0, parts = 0;
  };
  const auto growing = std::make_shared<const Growing>();
  const ImageCache cache(growing, 6 * 30);
  for (int round = 0; round < 2; ++round)
    for (int64_t i = 0; i < 6; ++i) cache.read_part(i, 0, all_of);
  CHECK(cache.bytes() == 2 * 30);
  CHECK(growing->reads == 3);      // the third found no room
  CHECK(growing->parts == 3 + 4);  // and those behind it were not tried
}

TEST_CASE("a cache is of a data set, and of bytes from 0") {
  CHECK_THROWS_AS(ImageCache(nullptr, 1), ValueError);
  CHECK_THROWS_AS(ImageCache(std::make_shared<const Fake>(1), -1), ValueError);
}

TEST_CASE("an image that was kept for another target is read again, and what is bad stays bad") {
  const auto fake = std::make_shared<const Fake>(5, std::set<int64_t>{1});
  const ImageCache cache(fake, 1 << 20);
  cache.read(0, 0);
  cache.read(0, 8);
  CHECK(fake->reads == 2);
  CHECK(cache.bytes() == kImageBytes);
  for (int i = 0; i < 2; ++i) CHECK_THROWS_AS(cache.read(1, 0), FileError);
  CHECK(fake->reads == 4);
}

TEST_CASE("batches are the same with a cache as without, with any number of workers") {
  const std::vector<Copy> expected = epochs_of(std::make_shared<const Fake>(37), 1);
  for (int workers : {0, 1, 4}) {
    const auto cache =
        std::make_shared<const ImageCache>(std::make_shared<const Fake>(37), 1 << 20);
    CHECK(epochs_of(cache, workers) == expected);
    CHECK(cache->bytes() == 37 * kImageBytes);
  }
}

// Decoded whole, and not the part that is wanted.
TEST_CASE("batches of JPEG files are the same with a cache as without") {
  const testing::TempFolder folder;
  for (int i = 0; i < 24; ++i) {
    const int width = 17 + 5 * i, height = 40 - i;
    folder.write((i % 2 == 0 ? "train/a/" : "train/b/") + std::to_string(i) + ".jpg",
                 testing::encode_jpeg({.width = width, .height = height},
                                      testing::smooth_picture(width, height)));
  }
  const auto files = [&] { return std::make_shared<const ImageFolder>(folder.path() + "/train"); };
  const auto cache = std::make_shared<const ImageCache>(files(), 1 << 20);
  CHECK(epochs_of(cache, 2) == epochs_of(files(), 2));
  CHECK(cache->bytes() > 0);
}

TEST_CASE("threads that read the same images keep each once") {
  const auto fake = std::make_shared<const Fake>(20);
  const ImageCache cache(fake, 1 << 20);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int64_t i = 0; i < 20; ++i) cache.read(i, 0);
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(cache.bytes() == 20 * kImageBytes);
}

}  // namespace brim::data
