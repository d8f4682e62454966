#include "brim/apps/support/model_measure.h"

#include <chrono>

#include "brim/base/bytes.h"
#include "brim/brim.h"
#include "brim/apps/support/planned_device.h"
#include "brim/apps/support/train_plan.h"
#include "brim/apps/support/train_speed.h"
#include "brim/memory/arena_planner.h"
#include "brim/train/upload.h"

namespace brim::apps {
namespace {

constexpr int kTimedPasses = 9;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Two passes, as the second may hold more: a planner's state settles within that.
RehearsedPlan plan_inference(const TrainFlags& flags, const TrainData& data) {
  const MetaProgram program = [&](const std::function<void()>& state_is_held) {
    auto model = nn::make_model(flags.model, model_options(flags, data, Device::meta()));
    model->eval();
    state_is_held();
    InputOptions input = data.input;
    input.device = Device::meta();
    for (int pass = 0; pass < 2; ++pass)
      evaluate_batch(*model, empty_upload(flags.batch, flags.size, input), input);
  };
  return plan_under(flags.planner, program);
}

/// Passes over random pixels through a model of the flags, under the plan for them.
class Inference {
 public:
  Inference(const TrainFlags& flags, const TrainData& data)
      : input_(data.input),
        images_(data::make_synthetic(
            {.count = flags.batch, .size = flags.size, .classes = data.classes})),
        plan_(plan_inference(flags, data)),
        account_(std::make_shared<memory::Account>(
            flags.device, source_for(flags),
            plan_.plan ? memory::arena_planner(plan_.plan, {.device = flags.device})
                       : memory::planner_named(flags.planner))),
        scope_(account_),
        model_(nn::make_model(flags.model, model_options(flags, data, flags.device))) {
    model_->eval();
    pass();
  }

  int64_t peak_bytes() const { return account_->stats().peak_reserved; }
  /// By the middle one of some passes.
  double images_per_second() {
    std::vector<double> seconds;
    for (int i = 0; i < kTimedPasses; ++i) seconds.push_back(seconds_of([this] { pass(); }));
    std::ranges::nth_element(seconds, seconds.begin() + kTimedPasses / 2);
    return static_cast<double>(images_.labels.size()) / seconds[kTimedPasses / 2];
  }

 private:
  void pass() {
    const HostBatch batch{images_.pixels, images_.labels, images_.size};
    evaluate_batch(*model_, upload(batch, input_), input_);
  }

  InputOptions input_;
  data::SyntheticBatch images_;
  RehearsedPlan plan_;
  std::shared_ptr<memory::Account> account_;
  memory::AccountScope scope_;
  std::unique_ptr<nn::Module> model_;
};

}  // namespace

int64_t train_peak_bytes(const TrainFlags& flags, const TrainData& data) {
  return predict_memory(flags, data, flags.batch).predicted.peak_reserved;
}

int64_t infer_peak_bytes(const TrainFlags& flags, const TrainData& data) {
  return plan_inference(flags, data).predicted.peak_reserved;
}

std::optional<double> accuracy_of(const TrainFlags& flags, TrainData& data, nn::Module& model) {
  if (data.validation == nullptr) return {};
  return evaluate(model, *data.validation, data.input, nullptr, flags.batch).accuracy;
}

ModelMeasure measure_model(const TrainFlags& flags, TrainData& data, nn::Module& model) {
  ModelMeasure measure{.parameters = model.parameter_count()};
  measure.flops = shrink::flops_of({1, flags.size, flags.size, 3})(model);
  measure.train_peak_bytes = train_peak_bytes(flags, data);
  measure.infer_peak_bytes = infer_peak_bytes(flags, data);
  {
    Inference inference(flags, data);
    measure.infer_measured_bytes = inference.peak_bytes();
    measure.images_per_second = inference.images_per_second();
  }
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
          {"infer_measured_bytes", m.infer_measured_bytes},
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

}  // namespace brim::apps
