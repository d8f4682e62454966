#include "brim/train/measured_speed.h"

#include <algorithm>

#include "brim/autograd/backward.h"
#include "brim/memory/account.h"
#include "brim/ops/add.h"
#include "brim/ops/batch_norm.h"
#include "brim/ops/conv2d.h"
#include "brim/ops/linear.h"
#include "brim/ops/max_pool2d.h"
#include "brim/ops/normalized_conv2d.h"
#include "brim/ops/relu.h"
#include "brim/train/measured_ops.h"

namespace brim {
namespace {

using memory::Phase;

constexpr Phase kPhases[] = {Phase::forward, Phase::recompute, Phase::backward};

/// What an op of these shapes waits for.
enum class Bound { arithmetic, traffic, start };

struct Probe {
  Bound bound;
  std::function<Tensor()> run;
};

Tensor leaf(const Shape& shape) {
  return empty(shape, {.device = Device::meta()}).set_requires_grad();
}

Tensor conv(const Shape& x, int64_t outputs, int window, int64_t groups = 1) {
  return conv2d(leaf(x), leaf({outputs, window, window, x[3] / groups}), {},
                {.padding = window / 2, .groups = groups});
}

Tensor norm(const Shape& shape) {
  const Shape channels{shape[shape.size() - 1]};
  return batch_norm(leaf(shape), leaf(channels), leaf(channels), {}, {},
                    {.activation = Activation::relu});
}

Tensor normalized_conv(const Shape& x, int64_t outputs, int window, int64_t groups = 1) {
  const Shape channels{x[3]};
  const TensorOptions statistics{.dtype = Dtype::float64, .device = Device::meta()};
  return normalized_conv2d(leaf(x),
                           {.weight = leaf(channels),
                            .bias = leaf(channels),
                            .options = {.activation = Activation::relu,
                                        .mean = empty(channels, statistics),
                                        .variance = empty(channels, statistics)}},
                           leaf({outputs, window, window, x[3] / groups}), {},
                           {.padding = window / 2, .groups = groups})
      .y;
}

/// Layers of networks as they are trained. Arithmetic takes about a millisecond: what is shorter
/// than a turn of the scheduler is seen undisturbed now and then, on a busy machine too.
std::vector<Probe> probes() {
  std::vector<Probe> list;
  auto add_probe = [&](Bound bound, std::function<Tensor()> run) {
    list.push_back({bound, std::move(run)});
  };
  const Shape large{32, 56, 56, 64};  // 24.5 MiB
  const MaxPool2dOptions window{.kernel = 3, .stride = 2, .padding = 1};
  add_probe(Bound::start, [] { return relu(leaf({16})); });
  add_probe(Bound::traffic, [=] { return relu(leaf(large)); });
  add_probe(Bound::traffic, [=] { return add(leaf(large), leaf(large)); });
  add_probe(Bound::traffic, [=] { return norm(large); });
  add_probe(Bound::traffic, [=] { return max_pool2d(leaf(large), window); });
  add_probe(Bound::traffic, [] { return conv({16, 56, 56, 96}, 96, 3, /*groups=*/96); });
  add_probe(Bound::traffic, [] { return normalized_conv({16, 56, 56, 96}, 96, 3, /*groups=*/96); });
  add_probe(Bound::arithmetic, [] { return normalized_conv({2, 28, 28, 512}, 128, 1); });
  add_probe(Bound::arithmetic, [] { return conv({1, 56, 56, 64}, 64, 3); });
  add_probe(Bound::arithmetic, [] { return conv({2, 28, 28, 512}, 128, 1); });
  add_probe(Bound::arithmetic, [] { return conv({2, 14, 14, 256}, 256, 3); });
  add_probe(Bound::arithmetic, [] { return linear(leaf({64, 1024}), leaf({1024, 1024}), {}); });
  return list;
}

/// What ran of a probe, by phase.
struct Sample {
  Bound bound;
  Phase phase;
  OpRun run;
  double seconds = 0;
};

/// The one call of a probe, and its runs.
void add_samples(const Probe& probe, const TimingOptions& options, std::vector<Sample>& samples) {
  auto account = std::make_shared<memory::Account>(
      Device::meta(), std::make_unique<memory::NullSource>(), memory::planner_named("direct"));
  memory::AccountScope scope(account);
  autograd::GradModeScope records(true);
  OpRuns observer(/*keeps_calls=*/true);
  Tensor result = probe.run();
  backward(result, {.grad = empty_like(result)});
  const SeenRuns seen = observer.take();
  check(seen.runs.size() == 2 && seen.calls.size() == 1, "a probe is one op");
  const OpCall& call = seen.calls.begin()->second;
  const CallSeconds seconds = time_call(call, options);
  const OpRun& forward = seen.runs[0];
  samples.push_back({probe.bound, Phase::forward, forward, seconds.forward});
  samples.push_back({probe.bound, Phase::recompute, replay_of(call, forward), seconds.replay});
  samples.push_back({probe.bound, Phase::backward, seen.runs[1], seconds.backward});
}

std::vector<Sample> timed_round(const TimingOptions& options) {
  std::vector<Sample> samples;
  for (const Probe& probe : probes()) add_samples(probe, options, samples);
  return samples;
}

/// The fastest of each sample so far.
class Rounds {
 public:
  void add(std::vector<Sample> round) {
    slowest_ = std::max(slowest_, seconds_of(round));
    const double before = seconds_of(best_);
    if (best_.empty()) best_ = std::move(round);
    for (size_t i = 0; i < round.size(); ++i)
      best_[i].seconds = std::min(best_[i].seconds, round[i].seconds);
    ++count_;
    is_settled_ = before - seconds_of(best_) <= kSettled * before;
  }
  bool are_enough() const { return count_ >= (is_settled_ ? kLeast : kMost); }

  int count() const { return count_; }
  double spread() const { return slowest_ / seconds_of(best_) - 1; }
  const std::vector<Sample>& best() const { return best_; }

 private:
  static constexpr int kLeast = 3, kMost = 8;
  static constexpr double kSettled = 0.01;

  static double seconds_of(const std::vector<Sample>& samples) {
    double sum = 0;
    for (const Sample& sample : samples) sum += sample.seconds;
    return sum;
  }

  std::vector<Sample> best_;
  double slowest_ = 0;
  int count_ = 0;
  bool is_settled_ = false;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

class Fit {
 public:
  explicit Fit(std::vector<Sample> samples) : samples_(std::move(samples)) {
    speed_.seconds_per_op = median(
        of(Bound::start, [](const Sample& sample) { return sample.phase == Phase::forward; }));
  }

  DeviceSpeed run() && {
    auto is_forward = [](const Sample& sample) { return sample.phase == Phase::forward; };
    auto is_elementwise = [&](const Sample& sample) {
      return is_forward(sample) && (sample.run.op == "relu" || sample.run.op == "add");
    };
    speed_.flops_per_second = median(of(Bound::arithmetic, is_forward));
    speed_.bytes_per_second = median(of(Bound::traffic, is_elementwise));
    for (const char* op : {"conv2d", "linear", "batch_norm", "normalized_conv2d", "max_pool2d"})
      for (Phase phase : kPhases) add_rates(op, phase);
    return std::move(speed_);
  }

 private:
  // What the wanted samples show of their bound.
  template <class Wanted>
  std::vector<double> of(Bound bound, const Wanted& wanted) const {
    std::vector<double> values;
    for (const Sample& sample : samples_)
      if (sample.bound == bound && wanted(sample)) values.push_back(shown_by(sample));
    return values;
  }

  double shown_by(const Sample& sample) const {
    if (sample.bound == Bound::start) return std::max(sample.seconds, kLeastSeconds);
    // A clock that is too coarse must not make a rate infinite.
    const double seconds =
        std::max({sample.seconds - speed_.seconds_per_op, sample.seconds / 2, kLeastSeconds});
    return (sample.bound == Bound::arithmetic ? sample.run.flops
                                              : static_cast<double>(sample.run.bytes_moved)) /
           seconds;
  }

  void add_rates(const char* op, Phase phase) {
    auto is_it = [&](const Sample& sample) { return sample.phase == phase && sample.run.op == op; };
    const std::vector<double> flops = of(Bound::arithmetic, is_it),
                              bytes = of(Bound::traffic, is_it);
    speed_.of_ops[run_name(op, phase)] = {flops.empty() ? speed_.flops_per_second : median(flops),
                                          bytes.empty() ? speed_.bytes_per_second : median(bytes)};
  }

  static constexpr double kLeastSeconds = 1e-9;
  std::vector<Sample> samples_;
  DeviceSpeed speed_;
};

}  // namespace

MeasuredSpeed measured_speed(const SpeedOptions& options) {
  expect<DeviceError>(options.device.is_cpu(), "op times",
                      "expected the CPU to measure the speed of, got {}", options.device);
  const TimingOptions timing{.device = options.device,
                             .capacity = kSpeedBytes,
                             .repeats = 3,
                             .quantile = 0,  // whatever else runs on the machine only slows it
                             .least_seconds = 0.006,
                             .now = options.now};
  Rounds rounds;
  while (!rounds.are_enough()) rounds.add(timed_round(timing));
  return {Fit(rounds.best()).run(), rounds.count(), rounds.spread()};
}

}  // namespace brim
