#include "brim/train/batch_speed.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "brim/base/bytes.h"
#include "brim/base/error.h"

namespace brim {
namespace {

constexpr const char* kTag = "batch speed";

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double best_speed(std::span<const SpeedPoint> curve) {
  expect<ValueError>(!curve.empty(), kTag, "expected a point of the curve");
  for (const SpeedPoint& point : curve)
    expect<ValueError>(point.images_per_second > 0 && std::isfinite(point.images_per_second), kTag,
                       "expected a speed above 0 at batch {}, got {}", point.batch,
                       point.images_per_second);
  return std::ranges::max(curve, {}, &SpeedPoint::images_per_second).images_per_second;
}

void check_options(const BatchSpeedOptions& options) {
  expect<ValueError>(!options.batches.empty(), kTag, "expected a batch to measure");
  expect<ValueError>(options.step != nullptr, kTag, "expected a step to measure");
  expect<ValueError>(options.repeats > 0, kTag, "expected repeats above 0, got {}",
                     options.repeats);
  for (int64_t batch : options.batches)
    expect<ValueError>(batch > 0, kTag, "expected batches above 0, got {}", batch);
}

}  // namespace

std::vector<int64_t> candidate_batches(const CandidateOptions& options) {
  const auto& [least, most, multiple] = options;
  expect<ValueError>(
      multiple > 0 && least > 0 && least <= most && ceil_div(least, multiple) <= most / multiple,
      kTag, "there is no multiple of {} from {} to {}", multiple, least, most);
  const int64_t first = ceil_div(least, multiple), last = most / multiple;
  std::vector<int64_t> batches;
  auto add = [&](int64_t count) {
    if (count >= first && count < last) batches.push_back(count * multiple);
  };
  for (int64_t power = 1; power<last; power = power> last / 2 ? last : 2 * power) {
    add(power);
    if (power > 1) add(power + power / 2);
  }
  batches.push_back(last * multiple);
  return batches;
}

std::vector<SpeedPoint> measure_speed(const BatchSpeedOptions& options) {
  check_options(options);
  const std::function<double()> now = options.now ? options.now : steady_seconds;
  std::vector<SpeedPoint> curve;
  for (int64_t batch : options.batches) {
    options.step(batch);
    std::vector<double> seconds;
    for (int i = 0; i < options.repeats; ++i) {
      double start = now();
      options.step(batch);
      seconds.push_back(now() - start);
    }
    double typical = median(std::move(seconds));
    expect<ValueError>(typical > 0, kTag, "the clock stands still at batch {}", batch);
    curve.push_back({batch, static_cast<double>(batch) / typical});
  }
  return curve;
}

SpeedPoint knee(std::span<const SpeedPoint> curve, double share) {
  expect<ValueError>(share > 0 && share <= 1, kTag, "expected a share in (0, 1], got {}", share);
  const double enough = share * best_speed(curve);
  const SpeedPoint* found = nullptr;
  for (const SpeedPoint& point : curve)
    if (point.images_per_second >= enough && (found == nullptr || point.batch < found->batch))
      found = &point;
  return *found;
}

std::string draw_speed(std::span<const SpeedPoint> curve, double share) {
  constexpr double kWidth = 30;  // of the longest bar, for lines of 80 columns
  const SpeedPoint marked = knee(curve, share);
  const double best = best_speed(curve);
  const int decimals = best < 100 ? 1 : 0;
  auto speed = [&](const SpeedPoint& p) {
    return fmt::format("{:.{}f}", p.images_per_second, decimals);
  };
  size_t batch_width = 0, speed_width = 0;
  for (const SpeedPoint& point : curve) {
    batch_width = std::max(batch_width, std::to_string(point.batch).size());
    speed_width = std::max(speed_width, speed(point).size());
  }
  std::string text;
  for (const SpeedPoint& point : curve) {
    auto bar = static_cast<size_t>(std::max(1.0, kWidth * point.images_per_second / best + 0.5));
    text += fmt::format("batch {:>{}}  {:>{}} images/s  {:#<{}}{}\n", point.batch, batch_width,
                        speed(point), speed_width, "", bar,
                        point.batch == marked.batch ? "   <- the knee" : "");
  }
  return text;
}

}  // namespace brim
