#include "brim/data/image_cache.h"

#include <algorithm>
#include <utility>

#include "brim/base/error.h"

namespace brim::data {
namespace {

int64_t bytes_of(const Image& image) { return static_cast<int64_t>(image.pixels.size()); }

}  // namespace

ImageCache::ImageCache(std::shared_ptr<const Dataset> dataset, int64_t max_bytes)
    : dataset_(std::move(dataset)), max_bytes_(max_bytes) {
  expect<ValueError>(dataset_ != nullptr, "image_cache", "expected a data set, got none");
  expect<ValueError>(max_bytes >= 0, "image_cache", "expected bytes from 0, got {}", max_bytes);
  kept_ = std::vector<std::atomic<const Kept*>>(static_cast<size_t>(dataset_->size()));
}

ImageCache::~ImageCache() {
  for (const auto& kept : kept_) delete kept.load();
}

Image ImageCache::read(int64_t index, int target) const {
  if (const Image* kept = find(index, target)) return *kept;
  Image image = dataset_->read(index, target);
  keep(index, image, target);
  return image;
}

ImagePart ImageCache::read_part(int64_t index, int target, const ChooseBox& wanted) const {
  if (const Image* kept = find(index, target)) return whole(*kept);
  if (keeps()) return whole(read(index, target));
  return dataset_->read_part(index, target, wanted);
}

const Image* ImageCache::find(int64_t index, int target) const {
  if (index < 0 || index >= size()) return nullptr;  // the data set says so
  const Kept* kept = kept_[static_cast<size_t>(index)];
  return kept != nullptr && kept->target == target ? &kept->image : nullptr;
}

void ImageCache::keep(int64_t index, const Image& image, int target) const {
  const int64_t bytes = bytes_of(image);
  Choice open = Choice::open;
  choice_.compare_exchange_strong(
      open, bytes <= max_bytes_ / std::max<int64_t>(size(), 1) ? Choice::keep : Choice::leave);
  if (!keeps()) return;
  auto kept = std::make_unique<const Kept>(Kept{image, target});
  const Kept* none = nullptr;
  if (bytes_.fetch_add(bytes) + bytes > max_bytes_)
    choice_ = Choice::leave;  // what is kept stays, and others are read in part again
  else if (kept_.at(static_cast<size_t>(index)).compare_exchange_strong(none, kept.get()))
    return static_cast<void>(kept.release());
  bytes_ -= bytes;
}

}  // namespace brim::data
