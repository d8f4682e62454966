#include "brim/examples/support/model_measure.h"

#include <chrono>

#include "brim/base/bytes.h"
#include "brim/brim.h"
#include "brim/examples/support/train_plan.h"
#include "brim/examples/support/train_speed.h"
#include "brim/train/upload.h"

namespace brim::examples {
namespace {

constexpr int kTimedPasses = 9;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The middle one of some passes over random pixels.
double infer_speed(const TrainFlags& flags, const TrainData& data, nn::Module& model) {
  const data::SyntheticBatch images =
      data::make_synthetic({.count = flags.batch, .size = flags.size, .classes = data.classes});
  const HostBatch batch{images.pixels, images.labels, images.size};
  nn::EvalScope eval(model);
  auto pass = [&] { evaluate_batch(model, upload(batch, data.input), data.input); };
  pass();
  std::vector<double> seconds;
  for (int i = 0; i < kTimedPasses; ++i) seconds.push_back(seconds_of(pass));
  std::ranges::nth_element(seconds, seconds.begin() + kTimedPasses / 2);
  return static_cast<double>(flags.batch) / seconds[kTimedPasses / 2];
}

}  // namespace

int64_t train_peak_bytes(const TrainFlags& flags, const TrainData& data) {
  return predict_memory(flags, data, flags.batch).predicted.peak_reserved;
}

int64_t infer_peak_bytes(const TrainFlags& flags, const TrainData& data) {
  const MetaProgram program = [&](const std::function<void()>& state_is_held) {
    auto model = nn::make_model(flags.model, model_options(flags, data, Device::meta()));
    model->eval();
    state_is_held();
    InputOptions input = data.input;
    input.device = Device::meta();
    for (int pass = 0; pass < 2; ++pass)
      evaluate_batch(*model, empty_upload(flags.batch, flags.size, input), input);
  };
  return plan_under(flags.planner, program).predicted.peak_reserved;
}

std::optional<double> accuracy_of(const TrainFlags& flags, TrainData& data, nn::Module& model) {
  if (data.validation == nullptr) return {};
  return evaluate(model, *data.validation, data.input, nullptr, flags.batch).accuracy;
}

ModelMeasure measure_model(const TrainFlags& flags, TrainData& data, nn::Module& model) {
  ModelMeasure measure{.parameters = model.parameter_count()};
  measure.flops = nn::summarize(model, {1, flags.size, flags.size, 3}).flops;
  measure.train_peak_bytes = train_peak_bytes(flags, data);
  measure.infer_peak_bytes = infer_peak_bytes(flags, data);
  measure.images_per_second = infer_speed(flags, data, model);
  const std::vector<SpeedPoint> speed = measure_batches(flags, data, flags.batch, flags.batch);
  if (!speed.empty()) measure.train_images_per_second = speed.front().images_per_second;
  measure.accuracy = accuracy_of(flags, data, model);
  return measure;
}

Json to_json(const ModelMeasure& m) {
  return {{"parameters", m.parameters},
          {"flops", m.flops},
          {"train_peak_bytes", m.train_peak_bytes},
          {"infer_peak_bytes", m.infer_peak_bytes},
          {"images_per_second", m.images_per_second},
          {"train_images_per_second", m.train_images_per_second},
          {"accuracy", m.accuracy ? Json(*m.accuracy) : Json()}};
}

std::string comparison(const ModelMeasure& before, const ModelMeasure& after) {
  std::string text =
      fmt::format("  {:24}  {:>12}  {:>12}  {:>7}\n", "", "before", "after", "share");
  auto row = [&](const char* name, const std::string& b, const std::string& a, double share) {
    text += fmt::format("  {:24}  {:>12}  {:>12}  {:>7.3f}\n", name, b, a, share);
  };
  auto count = [](double n) { return fmt::format("{:.3f} M", n / 1e6); };
  auto of = [](auto a, auto b) { return static_cast<double>(a) / static_cast<double>(b); };
  auto bytes = [&](const char* name, int64_t b, int64_t a) {
    row(name, format_bytes(b), format_bytes(a), of(a, b));
  };
  auto speed = [&](const char* name, double b, double a) {
    row(name, fmt::format("{:.1f}/s", b), fmt::format("{:.1f}/s", a), a / b);
  };
  row("parameters", count(static_cast<double>(before.parameters)),
      count(static_cast<double>(after.parameters)), of(after.parameters, before.parameters));
  row("FLOPs of an image", count(before.flops), count(after.flops), after.flops / before.flops);
  bytes("peak of training", before.train_peak_bytes, after.train_peak_bytes);
  bytes("peak of inference", before.infer_peak_bytes, after.infer_peak_bytes);
  speed("images trained on", before.train_images_per_second, after.train_images_per_second);
  speed("images inferred", before.images_per_second, after.images_per_second);
  if (before.accuracy && after.accuracy)
    row("accuracy", fmt::format("{:.2f}%", 100 * *before.accuracy),
        fmt::format("{:.2f}%", 100 * *after.accuracy), *after.accuracy / *before.accuracy);
  return text;
}

}  // namespace brim::examples
