// What a loader does with images that cannot be read, and with datasets that misbehave.
#include <doctest/doctest.h>

#include "brim/base/parallel.h"
#include "brim/tests/data/fake_dataset.h"

using namespace brim;
using namespace brim::data;

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
  for (BadImage kind : {BadImage::fail, BadImage::replace, BadImage::ignore}) {
    LoaderOptions options = options_of(10, 2);
    options.shuffle = false;
    options.bad_image = kind;
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
    LoaderOptions options{.batch = 10,
                          .size = kSize,
                          .workers = workers,
                          .shuffle = false,
                          .bad_image = BadImage::replace};
    Loader loader(std::make_shared<Fake>(40, bad), options);
    runs.push_back(epoch_of(loader, 0));
    CHECK(loader.skipped_images() == 3);
    const std::vector<std::string> reasons{"fake: 'fake/3' is bad", "fake: 'fake/4' is bad",
                                           "fake: 'fake/39' is bad"};
    CHECK(loader.skipped() == reasons);
    epoch_of(loader, 1);
    CHECK(loader.skipped_images() == 3);  // the same ones
    CHECK(loader.skipped() == reasons);
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

TEST_CASE("ignored images are black and have no class") {
  for (int workers : {0, 3}) {
    CAPTURE(workers);
    LoaderOptions options{.batch = 10, .size = kSize, .workers = workers, .shuffle = false};
    auto expected = [&] {
      Loader good(std::make_shared<Fake>(20), options);
      return epoch_of(good, 0);
    }();
    const size_t bytes = kSize * kSize * 3;
    std::fill_n(expected[0].pixels.begin() + 3 * bytes, bytes, uint8_t{0});
    std::fill_n(expected[1].pixels.begin() + 9 * bytes, bytes, uint8_t{0});
    expected[0].labels[3] = expected[1].labels[9] = kIgnoredLabel;

    options.bad_image = BadImage::ignore;
    Loader loader(std::make_shared<Fake>(20, std::set<int64_t>{3, 19}), options);
    CHECK(epoch_of(loader, 0) == expected);
    CHECK(loader.skipped_images() == 2);
    CHECK(loader.skipped().front() == "fake: 'fake/3' is bad");
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
  options.bad_image = BadImage::replace;
  Loader loader(std::make_shared<Fake>(60, std::set<int64_t>{5, 15, 25}), options);
  loader.start_epoch(0);
  CHECK(loader.skipped_images() == 0);
  loader.next();
  CHECK(loader.skipped_images() == 1);
  loader.next();
  CHECK(loader.skipped_images() == 2);
}

TEST_CASE("an epoch that begins at a later batch replaces the same images, and counts those") {
  const std::set<int64_t> bad{5, 29, 30, 44};
  LoaderOptions options = options_of(10, 0);
  options.bad_image = BadImage::replace;
  for (bool shuffle : {true, false}) {
    options.shuffle = shuffle;
    options.workers = 0;
    Loader whole(std::make_shared<Fake>(60, bad), options);
    const std::vector<Copy> all = epoch_of(whole, 2);
    for (int workers : {0, 3}) {
      options.workers = workers;
      Loader head(std::make_shared<Fake>(60, bad), options);
      head.start_epoch(2);
      for (int i = 0; i < 3; ++i) head.next();
      Loader tail(std::make_shared<Fake>(60, bad), options);
      CHECK(epoch_of(tail, 2, 3) == std::vector<Copy>(all.begin() + 3, all.end()));
      CHECK(head.skipped_images() + tail.skipped_images() == 4);
      if (shuffle) continue;
      CHECK(tail.skipped_images() == 2);
      CHECK(tail.skipped().front() == "fake: 'fake/30' is bad");
    }
  }
}

TEST_CASE("where every image is bad, skipping ends in an error") {
  std::set<int64_t> all;
  for (int64_t i = 0; i < 12; ++i) all.insert(i);
  for (int workers : {0, 3}) {
    LoaderOptions options = options_of(4, workers);
    options.shuffle = false;
    options.bad_image = BadImage::replace;
    Loader loader(std::make_shared<Fake>(12, all), options);
    loader.start_epoch(0);
    CHECK(failure_of(loader).first ==
          "loader: none of the 12 images can be read; the first error: fake: 'fake/0' is bad");
  }
}
