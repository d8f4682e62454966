// A watch sees each op's results and gradients in the module that made them, changes neither bits
// nor bytes, and what it reports is what the type does: planted losses are found, and named.
#include "brim/train/numerics.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "brim/autograd/backward.h"
#include "brim/nn/layers.h"
#include "brim/ops/autocast.h"
#include "brim/ops/cross_entropy.h"
#include "brim/ops/mul.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/train/plain_net.h"
#include "brim/tests/train/small_net.h"
#include "brim/train/recompute_options.h"
#include "brim/train/trainer.h"

using namespace brim;
using namespace brim::testing;

namespace {

/// One forward and backward, seen.
NumericsWatch watched(nn::Module& model, const Problem& problem, Dtype precision = Dtype::float32,
                      double scale = 1) {
  NumericsWatch watch;
  NumericsWatch::Scope scope(&watch, 0, scale);
  Tensor loss;
  {
    Autocast autocast(precision);
    loss = cross_entropy(model(problem.images), problem.labels);
  }
  backward(loss, {.grad = full({}, scale)});
  scope.keep();
  return watch;
}

const WatchedValues* find(const NumericsWatch& watch, std::string_view module, std::string_view op,
                          WatchedKind kind) {
  auto found = std::ranges::find_if(watch.values(), [&](const WatchedValues& one) {
    return one.module == module && one.op == op && one.kind == kind;
  });
  return found == watch.values().end() ? nullptr : &*found;
}

bool same(const ExponentHistogram& a, const Tensor& tensor) {
  ExponentHistogram b;
  b.add(tensor);
  for (int e = ExponentHistogram::kLeast; e <= ExponentHistogram::kMost; ++e)
    if (a.count(e) != b.count(e)) return false;
  return a.zeros() == b.zeros() && a.total() == b.total();
}

/// [N,4] to [N,4]: a linear layer whose results are multiplied by a number.
struct Scaled final : nn::Module {
  explicit Scaled(double number) : factor(full({1}, number)) {
    register_modules({{"fc", fc}, {"last", last}});
    nn::initialize(*this, /*seed=*/3);
  }
  Tensor forward(Tensor x) override { return last(mul(fc(std::move(x)), factor)); }

  Tensor factor;
  nn::Linear fc{4, 4, {.bias = false}}, last{4, 4, {.bias = false}};
};

/// Convolution with results around 300 and its norm, whose statistics it gathers.
struct Normed final : nn::Module {
  Normed() {
    register_modules({{"conv", conv}, {"bn", bn}});
    nn::initialize(*this, /*seed=*/3);
    conv.weight = full({8, 1, 1, 8}, 300);
  }
  Tensor forward(Tensor x) override { return bn(conv.for_norm(std::move(x))); }

  nn::Conv2d conv{8, 8, {.bias = false}};
  nn::BatchNorm2d bn{8};
};

Problem rows(int64_t count) {
  return {uniform({count, 4}, -1, 1, RandomKey{1}),
          from_vector(std::vector<int64_t>(static_cast<size_t>(count), 1), {count})};
}

}  // namespace

TEST_CASE(
    "what is seen of a parameter's gradient is that gradient, in float32 and under autocast") {
  for (Dtype precision : {Dtype::float32, Dtype::bfloat16}) {
    CAPTURE(to_string(precision));
    SmallNet model(/*dropout=*/0);
    const NumericsWatch watch = watched(model, random_problem(4, 8, 4), precision);
    for (const char* name : {"conv1", "conv2"}) {
      CAPTURE(name);
      const auto* seen = find(watch, name, "conv2d", WatchedKind::parameter_gradients);
      REQUIRE(seen != nullptr);
      const nn::Conv2d& conv = std::string(name) == "conv1" ? model.conv1 : model.conv2;
      CHECK(same(seen->exponents, conv.weight.grad()));
    }
    // The first convolution's input is no result of an op: it has no gradient.
    CHECK(find(watch, "conv1", "conv2d", WatchedKind::gradients) == nullptr);
    CHECK(find(watch, "conv2", "conv2d", WatchedKind::gradients) != nullptr);
    CHECK(find(watch, "conv1", "conv2d", WatchedKind::activations)->exponents.total() ==
          4 * 8 * 8 * 8);
    CHECK(std::ranges::none_of(watch.values(), [](const auto& one) { return one.op == "cast"; }));
  }
}

TEST_CASE("rows stand in the order of forward, an op's kinds together") {
  SmallNet model;
  const NumericsWatch watch = watched(model, random_problem(4, 8, 4));
  std::vector<std::string> modules;
  for (const WatchedValues& one : watch.values())
    if (modules.empty() || modules.back() != one.module) modules.push_back(one.module);
  CHECK(modules == std::vector<std::string>{"conv1", "bn1", "conv2", "bn2", "", "drop", "fc", ""});
}

TEST_CASE("activations that float16 would lose are found, and their op named") {
  Scaled model(0x1p-30);
  const NumericsWatch watch = watched(model, rows(64));
  const NumericsReport report = numerics_report(watch, Dtype::float16);
  const auto of = [&](std::string_view module, std::string_view op, WatchedKind kind) {
    auto found = std::ranges::find_if(report.rows, [&](const NumericsRow& row) {
      return row.values->module == module && row.values->op == op && row.values->kind == kind;
    });
    REQUIRE(found != report.rows.end());
    return *found;
  };
  const NumericsRow lost = of("", "mul", WatchedKind::activations);
  CHECK(lost.needs_float32);
  CHECK(lost.shares.lost > 0.9);
  CHECK_FALSE(of("fc", "linear", WatchedKind::activations).needs_float32);
  const auto lines = summary_of(report, watch);
  CHECK(std::ranges::any_of(lines, [](const std::string& line) {
    return line.starts_with("ops that need float32: ") &&
           line.find("mul in (the root) (activations, ") != std::string::npos;
  }));
  // bfloat16 reaches as far as float32.
  for (const NumericsRow& row : numerics_report(watch, Dtype::bfloat16).rows)
    CHECK_FALSE(row.needs_float32);
}

TEST_CASE("activations beyond float16 are found, in float32 and as infinities in it") {
  Scaled model(0x1p20);
  for (Dtype precision : {Dtype::float32, Dtype::float16}) {
    CAPTURE(to_string(precision));
    const NumericsWatch watch = watched(model, rows(64), precision);
    const NumericsReport report = numerics_report(watch, Dtype::float16);
    CHECK(report.activations.over > 0);
    CHECK(std::ranges::any_of(report.rows, [](const NumericsRow& row) {
      return row.needs_float32 && row.values->kind == WatchedKind::activations;
    }));
  }
}

TEST_CASE("statistics that a convolution gathers are none of its activations") {
  Normed model;
  const Tensor x = normal({2, 16, 16, 8}, 1, RandomKey{1});
  const Conv2dWithStatistics y = model.conv.for_norm(x);
  REQUIRE(y.variance.defined());
  CHECK(std::ranges::max(y.variance.to_vector<double>()) > 65504);  // beyond float16
  NumericsWatch watch;
  NumericsWatch::Scope scope(&watch, 0, 1);
  model(x);
  scope.keep();
  const WatchedValues* seen = find(watch, "conv", "conv2d", WatchedKind::activations);
  REQUIRE(seen != nullptr);
  CHECK(same(seen->exponents, y.y));
  CHECK(numerics_report(watch, Dtype::float16).activations.over == 0);
}

TEST_CASE("the loss scale that is proposed overflows nothing and keeps what can be kept") {
  SmallNet model(/*dropout=*/0);
  const Problem problem = random_problem(4, 8, 4);
  const NumericsWatch watch = watched(model, problem);
  const NumericsReport report = numerics_report(watch, Dtype::float16);
  CHECK(report.loss_scale > 1);
  CHECK(std::exp2(std::round(std::log2(report.loss_scale))) == report.loss_scale);
  CHECK(report.scaled_gradients.over == 0);
  CHECK(report.scaled_gradients.lost <= report.gradients.lost);
  // Four times as much is too much, unless it is as much as there may be.
  ExponentHistogram gradients;
  for (const WatchedValues& one : watch.values())
    if (one.kind == WatchedKind::gradients || one.op == "conv2d" || one.op == "linear")
      if (one.kind != WatchedKind::activations) gradients.add(one.exponents);
  CHECK(*gradients.highest() + std::log2(report.loss_scale) == 14);
  // With the scale in the run, the numbers are as the report foretold.
  SmallNet again(/*dropout=*/0);
  const NumericsReport scaled =
      numerics_report(watched(again, problem, Dtype::float32, report.loss_scale), Dtype::float16);
  CHECK(scaled.loss_scale == 1);
  CHECK(scaled.gradients.lost == report.scaled_gradients.lost);
  CHECK(scaled.gradients.subnormal == report.scaled_gradients.subnormal);
}

TEST_CASE("what is not kept does not count; updates that are not due are not seen") {
  SmallNet model;
  NumericsWatch watch({.every = 3});
  const Problem problem = random_problem(2, 8, 4);
  for (int step = 0; step < 7; ++step) {
    NumericsWatch::Scope scope(&watch, step);
    backward(cross_entropy(model(problem.images), problem.labels));
    if (step != 3) scope.keep();
  }
  CHECK(watch.steps() == std::vector<int64_t>{0, 6});
  const int64_t of_one = 2 * 8 * 8 * 8;
  CHECK(find(watch, "conv1", "conv2d", WatchedKind::activations)->exponents.total() == 2 * of_one);
  CHECK_THROWS_WITH_AS(NumericsWatch({.every = 0}), doctest::Contains("got 0"), ValueError);
}

TEST_CASE("a training that is watched has the same bits in the same bytes") {
  const auto trained = [](NumericsWatch* watch, std::vector<int64_t>& skipped) {
    PlainNet model(Dtype::float32);
    optim::Sgd sgd(model.named_parameters(), {.momentum = 0.9});
    optim::LossScaler scaler({.initial = 0x1p40});
    RandomBatches batches({.images = 8, .batches = 5});
    auto account = memory::account(Device::cpu());
    account->reset_peak();
    Trainer trainer(model, sgd, {batches, nullptr},
                    {.steps = 45, .precision = Dtype::float16, .scaler = &scaler, .watch = watch});
    trainer.on_step = [&](const StepReport& report) {
      if (report.skipped) skipped.push_back(report.step - 1);
    };
    trainer.run();
    return std::pair(values_of(model.named_parameters()), account->stats().peak_live);
  };
  NumericsWatch watch({.every = 4});
  std::vector<int64_t> skipped, skipped_too;
  CHECK(trained(&watch, skipped) == trained(nullptr, skipped_too));
  CHECK(skipped == skipped_too);
  REQUIRE(!skipped.empty());
  // Skipped updates are told, and those among them that were due are not looked at.
  std::vector<int64_t> told, due;
  for (const Skipped& one : watch.skipped()) told.push_back(one.step);
  CHECK(told == skipped);
  for (int64_t step = 0; step < 45; step += 4)
    if (std::ranges::find(skipped, step) == skipped.end()) due.push_back(step);
  CHECK(watch.steps() == due);
  CHECK(watch.most_scale() > 1);
  const auto lines = summary_of(numerics_report(watch, Dtype::float16), watch);
  CHECK(std::ranges::any_of(lines, [](const std::string& line) {
    return line.find("was skipped, with the loss times") != std::string::npos;
  }));
}

TEST_CASE("parameters of norms stay float32 under autocast: they neither count nor need it") {
  SmallNet model(/*dropout=*/0);
  const NumericsWatch watch = watched(model, random_problem(4, 8, 4));
  const NumericsReport report = numerics_report(watch, Dtype::float16);
  ExponentHistogram gradients;
  for (const WatchedValues& one : watch.values())
    if (one.kind != WatchedKind::activations &&
        !(one.op == "batch_norm" && one.kind == WatchedKind::parameter_gradients))
      gradients.add(one.exponents);
  CHECK(report.gradients.lost == gradients.shares(range_of(Dtype::float16)).lost);
  for (const NumericsRow& row : report.rows)
    if (row.values->op == "batch_norm" && row.values->kind == WatchedKind::parameter_gradients)
      CHECK_FALSE(row.needs_float32);
}

TEST_CASE("an update in parts, or with values made again, counts each value once") {
  const auto counted = [](int64_t micro_batch, const RecomputeOptions& recompute, bool fused) {
    PlainNet model(Dtype::float32);
    optim::Sgd sgd(model.named_parameters());
    RandomBatches batches({.images = 8, .batches = 1});
    NumericsWatch watch;
    Trainer trainer(model, sgd, {batches, nullptr},
                    {.steps = 1,
                     .micro_batch = micro_batch,
                     .planner = "arena",
                     .fused_update = fused,
                     .watch = &watch,
                     .recompute = recompute});
    trainer.run();
    std::vector<std::pair<std::string, int64_t>> totals;
    for (const WatchedValues& one : watch.values())
      if (one.kind != WatchedKind::parameter_gradients && one.op != "cross_entropy")
        totals.emplace_back(fmt::format("{} {} {}", one.module, one.op, to_string(one.kind)),
                            one.exponents.total());
    return totals;
  };
  const auto whole = counted(8, {}, false);
  CHECK(whole.size() > 8);
  CHECK(counted(4, {}, false) == whole);
  CHECK(counted(8, free_recomputation(), false) == whole);
  CHECK(counted(8, segmented_recomputation(2, 4), false) == whole);
  CHECK(counted(8, {}, true) == whole);
}

TEST_CASE("the table has the worst rows first, and says how many are left out") {
  Scaled model(0x1p-30);
  const NumericsWatch watch = watched(model, rows(64));
  const NumericsReport report = numerics_report(watch, Dtype::float16);
  const std::string table = table_of(report, /*most=*/2);
  CHECK(std::ranges::count(table, '\n') == 4);
  CHECK(table.find("mul") < table.find('\n', table.find('\n') + 1));
  CHECK(table.find(fmt::format("and {} rows that lose no more", report.rows.size() - 2)) !=
        std::string::npos);
}

TEST_CASE("the page shows every row and the summary") {
  SmallNet model;
  const NumericsWatch watch = watched(model, random_problem(4, 8, 4));
  const NumericsReport report = numerics_report(watch, Dtype::float16);
  const std::string page = numerics_page(report, watch, {"a <small> net"});
  size_t drawn = 0;
  for (size_t at = page.find("<svg class=\"exponents\""); at != page.npos;
       at = page.find("<svg class=\"exponents\"", at + 1))
    ++drawn;
  CHECK(drawn == report.rows.size() + 1);  // and the scale
  CHECK(page.find("a &lt;small> net") != page.npos);
  for (const std::string& line : summary_of(report, watch)) CHECK(page.find(line) != page.npos);
  CHECK(page.find("{{") == page.npos);
}
