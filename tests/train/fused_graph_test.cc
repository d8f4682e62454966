// Fused updates that are recorded have the bits of those that are not. What is not finite is found
// by the device, as by the host: nothing changes, or the update is torn and says so.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "brim/tests/support/errors.h"
#include "brim/tests/train/fused_training.h"
#include "brim/train/step_graph.h"

using namespace brim;
using namespace brim::testing;

namespace {

/// A training under its plan, whose updates are replayed from the third on.
struct Replayed {
  explicit Replayed(const Case& c) : planned(c), run(c), graph(run.step) {}
  double update() {
    return graph.run({.rate = 0.05, .run = [&] { return run.update(); }});
  }
  std::vector<float> values() const { return run.values(); }

  Planned planned;
  Run run;
  StepGraph graph;
};

Case recorded(std::string model, std::string optimizer, bool scaled = false) {
  return {.model = std::move(model),
          .optimizer = std::move(optimizer),
          .graph = true,
          .scaled = scaled};
}

std::vector<float> value_of(const Run& run, const std::string& name) {
  for (const nn::NamedTensor& each : run.model->named_parameters())
    if (each.name == name) return each.tensor.to_vector<float>();
  return {};
}

/// A kernel that throws when it is told to.
bool fails_now = false;
constexpr Kernel<NoAttributes> kFailing{"fused_graph_test_failing"};
void failing(const KernelCall&, const NoAttributes&) {
  if (fails_now) throw ValueError("failing", "now");
}

Case as_it_is(Case c) {
  c.graph = false;
  return c;
}

}  // namespace

TEST_CASE("a fused update from a recording has the same bits") {
  for (const char* model : {"small", "deep", "few pixels"})
    for (const char* optimizer : {"sgd", "adamw"}) {
      const Case c = recorded(model, optimizer);
      CAPTURE(c.name());
      std::vector<double> losses, norms;
      std::vector<std::vector<float>> values;
      {
        Planned planned(as_it_is(c));
        Run run(as_it_is(c));
        for (int i = 0; i < 6; ++i) {
          losses.push_back(run.update());
          norms.push_back(run.optimizer->gradient_norm().value());
          values.push_back(run.values());
        }
      }
      Replayed replayed(c);
      for (size_t i = 0; i < losses.size(); ++i) {
        REQUIRE(replayed.update() == losses[i]);
        REQUIRE(replayed.run.optimizer->gradient_norm() == norms[i]);
        REQUIRE(replayed.values() == values[i]);
      }
      CHECK(replayed.graph.why_not() == "");
      CHECK(replayed.graph.replays() == 5);
      CHECK(replayed.run.step.updates() == 6);
      CHECK(replayed.run.optimizer->steps() == 6);
      CHECK(replayed.run.ema.updates() == 6);
    }
}

TEST_CASE("a gradient from a recording that is not finite: the first is undone, others tear") {
  const Case c = recorded("small", "sgd", /*scaled=*/true);
  Run undisturbed(plain(as_it_is(c)));
  Replayed replayed(c);
  Run& run = replayed.run;
  for (int i = 0; i < 3; ++i) REQUIRE(replayed.update() == undisturbed.update());
  CHECK(replayed.graph.replays() == 2);
  const auto before = run.values();

  fill(run.factors.at("fc.weight"), NAN);  // backward begins there
  CHECK_THROWS_WITH_AS(
      replayed.update(),
      "sgd: the gradient of 'fc.weight' is not finite: it has an infinity or a NaN", ValueError);
  CHECK(replayed.graph.why_not() == "its loss or a gradient was not finite");
  CHECK(run.values() == before);
  CHECK(run.step.updates() == 3);
  fill(run.factors.at("fc.weight"), 1);
  CHECK(replayed.update() == undisturbed.update());
  CHECK(replayed.graph.replays() == 3);
  CHECK(run.values() == undisturbed.values());
  const auto later = run.values();
  const auto buffers = values_of(run.model->named_buffers()),
             averages = values_of(run.ema.named_state());
  std::map<std::string, std::vector<float>> kept;
  for (const nn::NamedTensor& each : run.model->named_parameters())
    kept[each.name] = each.tensor.to_vector<float>();

  fill(run.factors.at("conv2.weight"), NAN);  // in the middle of backward
  const std::string torn = error_text<TornUpdate>([&] { replayed.update(); });
  CHECK(
      torn ==
      "train step: update 4 failed after 5 of 8 parameters had changed, which cannot be undone: "
      "put parameters and the optimizer's state back from a checkpoint, then call set_updates(). "
      "The cause: sgd: the gradient of 'conv2.weight' is not finite: it has an infinity or a NaN");
  CHECK(run.values() != later);
  CHECK(run.step.updates() == 4);
  CHECK(run.optimizer->steps() == 4);
  CHECK(run.ema.updates() == 4);
  // Parameters after the one that tore it, and what moves at the end, are as they were.
  for (const char* name : {"conv1.weight", "bn1.weight", "bn1.bias"})
    CHECK(value_of(run, name) == kept.at(name));
  CHECK(values_of(run.model->named_buffers()) == buffers);
  CHECK(values_of(run.ema.named_state()) == averages);

  fill(run.factors.at("conv2.weight"), 1);
  CHECK(error_text<TornUpdate>([&] { replayed.update(); }) == torn);
  run.put_back(later);
  run.step.set_updates(4);
  CHECK(replayed.update() == undisturbed.update());
  CHECK(replayed.graph.replays() == 4);
  CHECK(run.values() == undisturbed.values());
}

TEST_CASE("a loss from a recording that is not finite changes nothing, and is explained") {
  const Case c = recorded("small", "adamw");
  Run undisturbed(plain(as_it_is(c)));
  Replayed replayed(c);
  for (int i = 0; i < 3; ++i) REQUIRE(replayed.update() == undisturbed.update());
  const auto before = replayed.values();
  const float kept = replayed.run.images.data<float>()[7];
  replayed.run.images.data<float>()[7] = INFINITY;
  const std::string message = error_text<ValueError>([&] { replayed.update(); });
  CHECK(message.find("first seen in the forward pass of 'conv2d' in module conv1") !=
        std::string::npos);
  CHECK(replayed.values() == before);
  replayed.run.images.data<float>()[7] = kept;
  CHECK(replayed.update() == undisturbed.update());
  CHECK(replayed.values() == undisturbed.values());
}

TEST_CASE("a kernel of a recording that throws before anything changed is run as it is") {
  const Case c = recorded("deep", "sgd");
  Replayed replayed(c);
  for (int i = 0; i < 3; ++i) replayed.update();
  const auto before = replayed.values();
  fill(replayed.run.labels, 99);
  const std::string message = error_text<ValueError>([&] { replayed.update(); });
  CHECK(message.find("99") != std::string::npos);
  CHECK(replayed.values() == before);
  CHECK(replayed.run.step.updates() == 3);
}

TEST_CASE("a kernel of a recording that throws after parameters changed tears the update") {
  register_kernel(kFailing, DeviceType::cpu, Dtype::float32, failing);
  const Case c = recorded("small", "sgd");
  Replayed replayed(c);
  for (const nn::NamedTensor& each : replayed.run.model->named_parameters())
    if (each.name == "bn1.weight")
      register_hook(each.tensor, [](const Tensor& grad) {
        launch(kFailing, {grad}, {grad});
        return Tensor();
      });
  for (int i = 0; i < 3; ++i) replayed.update();
  REQUIRE(replayed.graph.replays() == 2);
  fails_now = true;
  const std::string torn = error_text<TornUpdate>([&] { replayed.update(); });
  fails_now = false;
  CHECK(torn.find("update 3 failed after 5 of 8 parameters had changed") != std::string::npos);
  CHECK(torn.find("failing: now") != std::string::npos);
  CHECK(replayed.run.step.updates() == 3);
  CHECK(error_text<TornUpdate>([&] { replayed.update(); }) == torn);
}
