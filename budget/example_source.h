// Where the examples of a training come from: batches in host memory, epoch after epoch. Arrays and
// image loaders are there; derive from `ExampleSource` for others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "brim/budget/recipe.h"
#include "brim/data/loader.h"
#include "brim/data/permutation.h"

namespace brim {

/// The elements of each tensor of the recipe, in its order: those of all examples, one after the
/// other. They stay until the source is asked for more.
struct HostExamples {
  int64_t examples = 0;
  std::vector<std::span<const std::byte>> tensors;
};

class ExampleSource {
 public:
  virtual ~ExampleSource() = default;
  /// From 0; every epoch may have another order, and the same one each time that it is begun.
  virtual void start_epoch(int64_t epoch) = 0;
  /// As many examples as the training has in an update, at the end of an epoch perhaps fewer, which
  /// are evaluated and not trained on; then nothing.
  virtual std::optional<HostExamples> next() = 0;
};

/// Arrays that hold the elements of all examples, for each tensor of the recipe one; they must
/// outlive it. Each epoch in a new order.
class ArraySource final : public ExampleSource {
 public:
  /// Throws `ValueError` for another number of arrays than of tensors, arrays of no whole number of
  /// examples, of different numbers of them, or of fewer than `batch`.
  ArraySource(const std::vector<BatchTensor>& described, int64_t batch,
              std::vector<std::span<const std::byte>> arrays, uint64_t seed = 0);
  void start_epoch(int64_t epoch) override;
  std::optional<HostExamples> next() override;

 private:
  std::vector<int64_t> example_bytes_;
  int64_t batch_, examples_ = 0, given_ = 0;
  std::vector<std::span<const std::byte>> arrays_;
  uint64_t seed_;
  data::Permutation order_{0, RandomKey{}};
  std::vector<std::vector<std::byte>> rows_;  // of the batch that was given last
};

/// Images and labels, read ahead by a loader.
class ImageSource final : public ExampleSource {
 public:
  /// Throws as `data::Loader`.
  ImageSource(std::shared_ptr<const data::Dataset> images, const data::LoaderOptions& options)
      : loader_(std::move(images), options) {}
  void start_epoch(int64_t epoch) override { loader_.start_epoch(epoch); }
  std::optional<HostExamples> next() override;

 private:
  data::Loader loader_;
  std::optional<data::Batch> slot_;
};

}  // namespace brim
