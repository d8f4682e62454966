// Looks at the numbers of a training: how large the results and gradients of each module's ops are,
// and so what they lose, or would lose, in a 16-bit type. Slow while it looks, as it reads every
// result; so it looks at some updates only. train/numerics.h says what it means, as text, as a
// table and as a page.
//
//   NumericsWatch watch({.every = 20});
//   Trainer trainer(model, sgd, data, {..., .watch = &watch});
//
// In a loop of one's own, around forward and backward of an update:
//
//   NumericsWatch::Scope watching(&watch, step);
//   ...
//   watching.keep();
//
// For the first NaN or infinity of a run there is train/non_finite.h, which costs nothing until one
// appears.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "brim/autograd/op.h"
#include "brim/train/exponents.h"
#include "brim/train/step_outcome.h"

namespace brim {

/// Which values of an op: what forward made, and what backward made for inputs that ops made, and
/// for parameters.
enum class WatchedKind { activations, gradients, parameter_gradients };
/// "activations", "gradients", "parameter gradients".
const char* to_string(WatchedKind kind);

/// The values of one op in one module.
struct WatchedValues {
  std::string module, op;
  WatchedKind kind = WatchedKind::activations;
  ExponentHistogram exponents;  ///< of gradients: with the loss times the scale of its update
};

struct NumericsWatchOptions {
  int64_t every = 20;  ///< looks at update 0, and at each so many later
};

class NumericsWatch {
 public:
  /// Throws `ValueError` for `every` below 1.
  explicit NumericsWatch(const NumericsWatchOptions& options = {});

  /// Is this update, counted from 0, one to look at?
  bool is_due(int64_t step) const { return step % options_.every == 0; }

  /// Sees the ops of this thread until it ends, where the update is due; nothing for no watch.
  class Scope;

  void note_skipped(const Skipped& skipped) { skipped_.push_back(skipped); }
  /// By module in the order in which forward first ran them, activations first.
  const std::vector<WatchedValues>& values() const { return values_; }
  /// Those that were looked at.
  const std::vector<int64_t>& steps() const { return steps_; }
  /// Those that were skipped for an overflow; of their numbers nothing is kept.
  const std::vector<Skipped>& skipped() const { return skipped_; }
  /// What the losses of the updates looked at were multiplied by: the least and the most.
  double least_scale() const { return least_scale_; }
  double most_scale() const { return most_scale_; }

 private:
  void add(int64_t step, double scale, const std::vector<WatchedValues>& seen);

  NumericsWatchOptions options_;
  std::vector<WatchedValues> values_;
  std::vector<int64_t> steps_;
  std::vector<Skipped> skipped_;
  double least_scale_ = 1, most_scale_ = 1;
};

class NumericsWatch::Scope {
 public:
  /// `scale`: what the loss is multiplied by.
  Scope(NumericsWatch* watch, int64_t step, double scale = 1);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  /// What was seen counts: the update was applied. Nothing of it does otherwise.
  void keep();

 private:
  class Observer;
  NumericsWatch* watch_;
  int64_t step_;
  double scale_;
  std::unique_ptr<Observer> observer_;
};

}  // namespace brim
