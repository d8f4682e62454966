// A dataset whose images are slow, bad or mislabelled on purpose, and what loader tests do with it.
// Reading takes a different time for each image, so that workers finish out of order. Its pixels
// are noise: where a model should learn something use `data::Shapes`, for real files a `TempFolder`
// with tests/support/encode_image.h.
#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "brim/base/error.h"
#include "brim/base/random.h"
#include "brim/data/loader.h"

namespace brim::data {

inline constexpr int kSize = 6;

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

inline Copy copy_of(const Batch& batch) {
  return {batch.first_sample(),
          batch.count(),
          {batch.pixels().begin(), batch.pixels().end()},
          {batch.labels().begin(), batch.labels().end()}};
}

inline std::vector<Copy> epoch_of(Loader& loader, int64_t epoch, int64_t first_batch = 0) {
  std::vector<Copy> copies;
  loader.start_epoch(epoch, first_batch);
  while (std::optional<Batch> batch = loader.next()) copies.push_back(copy_of(*batch));
  return copies;
}

inline LoaderOptions options_of(int64_t batch, int workers) {
  return {.batch = batch,
          .size = kSize,
          .workers = workers,
          .augment = {.kind = Augment::Kind::random_resized_crop,
                      .flip = true,
                      .color_jitter = {.brightness = 0.4f, .hue = 0.1f},
                      .random_erasing = {.probability = 0.5f}}};
}

/// Reads the epoch; the error that ends it, and how many batches came before.
inline std::pair<std::string, int> failure_of(Loader& loader) {
  int batches = 0;
  try {
    while (loader.next()) ++batches;
    return {"", batches};
  } catch (const Error& error) {
    return {error.what(), batches};
  }
}

}  // namespace brim::data
