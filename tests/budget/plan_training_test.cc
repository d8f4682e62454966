// The one call: what it plans for any model, batch and loss is what a training holds, to the byte;
// what does not fit is told with what would.
#include "brim/budget/plan_training.h"

#include <doctest/doctest.h>

#include <cmath>

#include "brim/base/parallel.h"
#include "brim/base/random.h"
#include "brim/data/shapes.h"
#include "brim/nn/layers.h"
#include "brim/nn/models/registry.h"
#include "brim/nn/models/unet.h"
#include "brim/ops/ops.h"
#include "brim/optim/adamw.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/instrumented.h"

using namespace brim;

namespace {

constexpr int64_t kMiB = 1 << 20;

/// A model of two inputs: a price of sizes and of a place.
struct TwoInputs final : nn::Module {
  TwoInputs() {
    register_modules({{"size", size}, {"place", place}, {"hidden", hidden}, {"price", price}});
  }
  Tensor forward(Tensor) override { raise<ValueError>("two inputs", "call predict"); }
  Tensor predict(const Tensor& sizes, const Tensor& places) {
    return price(relu(hidden(relu(add(size(sizes), place(places))))));
  }

  nn::Linear size{2, 64}, place{4, 64}, hidden{64, 64}, price{64, 1};
};

std::unique_ptr<optim::Optimizer> adamw(nn::Module& model) {
  return std::make_unique<optim::AdamW>(model.named_parameters(), optim::AdamWOptions{});
}

Recipe regression() {
  return {.model = [] { return std::make_shared<TwoInputs>(); },
          .optimizer = adamw,
          .batch = {{"sizes", {2}}, {"places", {4}}, {"price", {1}}},
          .loss =
              [](nn::Module& model, const Batch& batch) {
                auto& net = static_cast<TwoInputs&>(model);
                return mse_loss(net.predict(batch["sizes"], batch["places"]), batch["price"]);
              }};
}

/// Scores of every pixel of grey images.
Recipe segmentation(int64_t side = 32) {
  return {.model =
              [] {
                return std::make_shared<nn::UNet>(
                    nn::UNetOptions{.classes = 2, .in = 1, .channels = 8, .depth = 2});
              },
          .optimizer = adamw,
          .batch = {{"images", {side, side, 1}}, {"masks", {side, side}, Dtype::int64}},
          .loss =
              [](nn::Module& model, const Batch& batch) {
                return cross_entropy(model(batch["images"]), batch["masks"]);
              }};
}

Recipe classifier(const std::string& name, int size) {
  return {.model =
              [name] { return std::shared_ptr<nn::Module>(nn::make_model(name, {.classes = 10})); },
          .optimizer =
              [](nn::Module& model) {
                return std::make_unique<optim::Sgd>(model.named_parameters(),
                                                    optim::SgdOptions{.momentum = 0.9});
              },
          .batch = image_batch(size)};
}

/// Random examples for any recipe: bytes of images, labels below 2, numbers in [-1, 1).
class RandomSource final : public ExampleSource {
 public:
  RandomSource(const Recipe& recipe, int64_t batch, int64_t batches)
      : batch_(batch), batches_(batches) {
    RandomStream random(RandomKey{7});
    for (const BatchTensor& tensor : recipe.batch) {
      auto& bytes = bytes_.emplace_back(static_cast<size_t>(batch * tensor.example_bytes()));
      const size_t each = static_cast<size_t>(size_of(tensor.dtype));
      for (size_t at = 0; at < bytes.size(); at += each) {
        const auto write = [&](auto value) { std::memcpy(&bytes[at], &value, sizeof value); };
        if (tensor.dtype == Dtype::float32) write(random.uniform(-1, 1));
        if (tensor.dtype == Dtype::uint8) write(static_cast<uint8_t>(random.below(256)));
        if (tensor.dtype == Dtype::int64) write(static_cast<int64_t>(random.below(2)));
      }
    }
  }
  void start_epoch(int64_t) override { given_ = 0; }
  std::optional<HostExamples> next() override {
    if (given_++ == batches_) return {};
    HostExamples examples{.examples = batch_};
    for (const auto& bytes : bytes_) examples.tensors.emplace_back(bytes);
    return examples;
  }

 private:
  int64_t batch_, batches_, given_ = 0;
  std::vector<std::vector<std::byte>> bytes_;
};

/// Trains two epochs of three updates under the plan, which has to hold what was predicted.
std::vector<double> train(const Recipe& recipe, const TrainingPlan& plan) {
  RandomSource source(recipe, plan.batch(), 3);
  std::vector<double> losses;
  Training trained = plan.train(source, {.epochs = 2,
                                         .schedule = optim::ConstantSchedule{.rate = 1e-3},
                                         .on_update = [&](int64_t update, double loss) {
                                           CHECK(update == static_cast<int64_t>(losses.size()) + 1);
                                           losses.push_back(loss);
                                         }});
  const memory::AccountStats held = trained.account()->stats();
  CHECK(held.peak_reserved == plan.predicted().peak_reserved);
  CHECK(held.peak_live == plan.predicted().peak_live);
  CHECK(held.mismatches == 0);
  CHECK(trained.step().updates() == 6);
  REQUIRE(losses.size() == 6);
  return losses;
}

std::vector<double> train(const Recipe& recipe, const Budget& budget) {
  const TrainingPlan plan = plan_training(recipe, budget);
  REQUIRE_MESSAGE(plan.fits(), plan.table());
  CHECK(plan.predicted().peak_reserved <= budget.bytes);
  CHECK(plan.why_not().empty());
  return train(recipe, plan);
}

}  // namespace

TEST_CASE("plan_training: a regression on two inputs holds what was predicted, and learns") {
  const std::vector<double> losses = train(regression(), {.bytes = 64 * kMiB, .batch = 32});
  CHECK(losses.back() < losses.front());
}

TEST_CASE("plan_training: arrays are given whole, each example once an epoch") {
  const Recipe recipe = regression();
  std::vector<float> sizes, places, prices;
  for (int i = 0; i < 70; ++i) {
    const float x = static_cast<float>(i) / 70;
    sizes.insert(sizes.end(), {x, 1 - x});
    places.insert(places.end(), {x, x, 0, 1});
    prices.push_back(2 * x + 1);
  }
  ArraySource source(recipe.batch, 16,
                     {std::as_bytes(std::span(sizes)), std::as_bytes(std::span(places)),
                      std::as_bytes(std::span(prices))});
  const TrainingPlan plan = plan_training(recipe, {.bytes = kMiB, .batch = 16});
  std::vector<double> losses;
  Training trained =
      plan.train(source, {.epochs = 50,
                          .schedule = optim::ConstantSchedule{.rate = 1e-2},
                          .on_update = [&](int64_t, double loss) { losses.push_back(loss); }});
  CHECK(losses.size() == 200);  // 70 examples are four batches
  CHECK(losses.back() < 0.01);
  std::vector<int> seen(70);
  source.start_epoch(3);
  while (auto batch = source.next()) {
    const auto* price = reinterpret_cast<const float*>(batch->tensors[2].data());
    const auto* size = reinterpret_cast<const float*>(batch->tensors[0].data());
    for (int i = 0; i < 16; ++i) {
      CHECK(price[i] == 2 * size[2 * i] + 1);
      ++seen[static_cast<size_t>(std::lround(size[2 * i] * 70))];
    }
  }
  CHECK(std::ranges::count(seen, 1) == 64);
  CHECK(std::ranges::count(seen, 0) == 6);
}

TEST_CASE("plan_training: a smaller budget for a loss per pixel has the same losses") {
  const Recipe recipe = segmentation();
  const TrainingPlan free = plan_training(recipe, {.bytes = 1024 * kMiB, .batch = 8});
  const std::vector<double> losses = train(recipe, free);
  CHECK(free.remedies().empty());
  const int64_t less = free.predicted().peak_reserved * 3 / 4;
  const TrainingPlan plan = plan_training(recipe, {.bytes = less, .batch = 8});
  REQUIRE_MESSAGE(plan.fits(), plan.table());
  CHECK(plan.predicted().peak_reserved <= less);
  CHECK(plan.relative_time() >= 1);
  REQUIRE(!plan.remedies().empty());
  CHECK(plan.table().find(plan.remedies().front()) != std::string::npos);
  CHECK(train(recipe, plan) == losses);
}

TEST_CASE("plan_training: what does not fit is told with what would") {
  const Recipe recipe = segmentation();
  const TrainingPlan whole = plan_training(recipe, {.bytes = 1024 * kMiB, .batch = 32});
  const int64_t less = whole.predicted().peak_reserved / 6;
  const TrainingPlan plan = plan_training(recipe, {.bytes = less, .batch = 32});
  REQUIRE_FALSE(plan.fits());
  CHECK(plan.why_not().find("a step of 32 examples takes ") == 0);
  CHECK_MESSAGE(plan.why_not().find("what would fit: ") != std::string::npos, plan.why_not());
  CHECK(plan.why_not().find(" micro-batches of ") != std::string::npos);
  CHECK_THROWS_WITH_AS(plan.begin(), doctest::Contains("the training does not fit: a step of"),
                       ValueError);
  // One of the offers, taken.
  const Budget taken{.bytes = less, .batch = 32, .micro_batch = 2};
  CHECK(plan_training(recipe, taken).micro_batch() == 2);
  train(recipe, taken);

  const TrainingPlan none = plan_training(recipe, {.bytes = 4096, .batch = 32});
  CHECK_FALSE(none.fits());
  CHECK(none.why_not().find("least is needed with ") != std::string::npos);
}

TEST_CASE("plan_training: classifiers of images are the default") {
  const Recipe recipe = classifier("resnet20", 32);
  auto images = std::make_shared<data::Shapes>(data::ShapesOptions{.count = 100, .size = 32});
  data::Loader loader(images, {.batch = 32, .size = 32, .workers = 0});
  ImageSource source(loader);
  const TrainingPlan plan = plan_training(recipe, {.bytes = 20 * kMiB, .batch = 32});
  REQUIRE_MESSAGE(plan.fits(), plan.table());
  int64_t updates = 0;
  Training trained = plan.train(source, {.schedule = optim::ConstantSchedule{.rate = 0.01},
                                         .on_update = [&](int64_t, double loss) {
                                           CHECK(std::isfinite(loss));
                                           ++updates;
                                         }});
  CHECK(updates == 3);
  CHECK(trained.account()->stats().peak_reserved == plan.predicted().peak_reserved);
}

TEST_CASE("plan_training: random models, batches and budgets hold what was predicted or offer it") {
  RandomStream random(RandomKey{53});
  int fitted = 0, refused = 0, accepted = 0;
  for (int i = 0; i < (testing::is_instrumented() ? 6 : 16); ++i) {
    const std::vector<Recipe> recipes{regression(), segmentation(16), classifier("resnet20", 16),
                                      classifier("mobilenet_v3_small", 32)};
    const Recipe& recipe = recipes[random.below(recipes.size())];
    const Budget all{.bytes = 4096 * kMiB, .batch = 2 + static_cast<int64_t>(random.below(12))};
    Budget budget = all;
    const int64_t peak = plan_training(recipe, all).predicted().peak_reserved;
    budget.bytes = static_cast<int64_t>(static_cast<double>(peak) * random.uniform(0.3f, 1.2f));
    CAPTURE(i);
    CAPTURE(budget.batch);
    CAPTURE(budget.bytes);
    const TrainingPlan plan = plan_training(recipe, budget);
    CAPTURE(plan.table());
    if (plan.fits()) {
      CHECK(plan.predicted().peak_reserved <= budget.bytes);
      train(recipe, plan);
      ++fitted;
    } else {
      CHECK(plan.predicted().peak_reserved > budget.bytes);
      ++refused;
      // Where it offers micro-batches, they run.
      const std::string why = plan.why_not(), words = " micro-batches of ";
      const bool offers = why.find("what would fit: ") != std::string::npos;
      CHECK_MESSAGE((offers || why.find("least is needed with ") != std::string::npos), why);
      const size_t at = why.find(words);
      if (!offers || at == std::string::npos) continue;
      Budget offered = budget;
      offered.micro_batch = std::stoll(why.substr(at + words.size()));
      const TrainingPlan taken = plan_training(recipe, offered);
      REQUIRE_MESSAGE(taken.fits(), why);
      train(recipe, taken);
      ++accepted;
    }
  }
  CHECK(fitted > 0);
  CHECK(refused > 0);
  if (!testing::is_instrumented()) CHECK(accepted > 0);
}

TEST_CASE("plan_training: wrong recipes, budgets and batches are named") {
  const Recipe good = regression();
  const Budget budget{.bytes = kMiB, .batch = 4};
  auto check_refused = [](const Recipe& recipe, const Budget& budget, const char* text) {
    CHECK_THROWS_WITH(plan_training(recipe, budget), doctest::Contains(text));
  };
  check_refused({}, budget, "expected a recipe with model, optimizer, batch and loss");
  check_refused(good, {.bytes = 0, .batch = 4}, "expected a budget of at least 1 byte, got 0");
  check_refused(good, {.bytes = kMiB}, "expected a batch of at least 1 example, got 0");
  check_refused(good, {.bytes = kMiB, .batch = 4, .micro_batch = 5},
                "expected a micro-batch from 1 to the 4 examples of a batch, got 5");
  Recipe wrong = good;
  wrong.model = [] { return std::shared_ptr<nn::Module>(); };
  check_refused(wrong, budget, "its function for the model made none");
  wrong.model = [made = std::make_shared<TwoInputs>()] { return made; };
  check_refused(wrong, budget, "made 'size.weight' of its model on cpu instead of meta");
  wrong = good;
  wrong.optimizer = [](nn::Module&) { return std::unique_ptr<optim::Optimizer>(); };
  check_refused(wrong, budget, "its function for the optimizer made none");
  wrong = good;
  wrong.batch.push_back({"sizes", {3}});
  check_refused(wrong, budget, "two tensors of the batch are called 'sizes'");
  wrong = good;
  wrong.precision = Dtype::float16;
  check_refused(wrong, budget, "float16 wants its loss scaled");
  wrong = good;
  wrong.loss = [](nn::Module&, const Batch& batch) { return batch["prize"]; };
  check_refused(wrong, budget, "no tensor is called 'prize'; there are: sizes, places, price");
  wrong = good;
  wrong.loss = [&](nn::Module& model, const Batch& batch) {
    Tensor loss = good.loss(model, batch);
    return loss.item<float>() > 1 ? loss : mul(loss, loss);
  };
  check_refused(wrong, budget, "meta");

  auto calls = std::make_shared<int>(0);
  wrong = good;
  wrong.model = [calls]() -> std::shared_ptr<nn::Module> {
    if (++*calls < 100) return std::make_shared<TwoInputs>();
    return std::make_shared<nn::Linear>(2, 1);
  };
  const TrainingPlan changing = plan_training(wrong, budget);
  *calls = 98;  // the next one is compared with it
  CHECK_THROWS_WITH_AS(changing.begin(), doctest::Contains("the recipe makes another model"),
                       ValueError);

  const TrainingPlan plan = plan_training(good, budget);
  Training training = plan.begin();
  const std::vector<std::byte> bytes(1024);
  auto of = [&](size_t first, size_t second, size_t third) {
    return std::vector<std::span<const std::byte>>{std::span(bytes).first(first),
                                                   std::span(bytes).first(second),
                                                   std::span(bytes).first(third)};
  };
  CHECK_THROWS_WITH(training.update({3, of(24, 48, 12)}, 0.1),
                    doctest::Contains("expected the 4 examples of an update, got 3"));
  CHECK_THROWS_WITH(training.update({4, {}}, 0.1),
                    doctest::Contains("expected the recipe's 3 tensors, got 0"));
  CHECK_THROWS_WITH(training.update({4, of(32, 60, 16)}, 0.1),
                    doctest::Contains("expected 64 bytes of 'places' for 4 examples, got 60"));
  CHECK(std::isfinite(training.update({4, of(32, 64, 16)}, 0.1)));
  CHECK(training.step().updates() == 1);

  const int threads = num_threads();
  set_num_threads(threads + 1);
  CHECK_THROWS_WITH_AS(plan.begin(), doctest::Contains(": plan again"), ValueError);
  set_num_threads(threads);

  RandomSource none(good, 4, 0);
  CHECK_THROWS_WITH(plan.train(none, {.epochs = 0}),
                    doctest::Contains("expected at least 1 epoch, got 0"));
  CHECK_THROWS_WITH(plan.train(none),
                    doctest::Contains("epoch 1 of the source ended before it gave a batch"));
}

TEST_CASE("plan_training: what a table proposes can be asked for, and holds what was predicted") {
  const Budget budget{.bytes = 1024 * kMiB, .batch = 8};
  Recipe recipe = segmentation();
  const int64_t as_it_is = plan_training(recipe, budget).predicted().peak_reserved;
  recipe.precision = Dtype::bfloat16;
  train(recipe, budget);
  CHECK(plan_training(recipe, budget).predicted().peak_reserved < as_it_is);
  recipe.gradients = Dtype::bfloat16;
  train(recipe, budget);
  recipe.parameters = Dtype::bfloat16;
  train(recipe, budget);
  Recipe fused = segmentation();
  fused.fused_update = true;
  train(fused, budget);
}

TEST_CASE("plan_training: parts of different sizes; an update that fails leaves all as it was") {
  Recipe recipe = segmentation(16);
  train(recipe, {.bytes = 1024 * kMiB, .batch = 10, .micro_batch = 4});

  auto fails_in = std::make_shared<int>(0);
  recipe.loss = [fails_in](nn::Module& model, const Batch& batch) {
    if (*fails_in > 0 && --*fails_in == 0) raise<ValueError>("test", "the loss failed");
    return cross_entropy(model(batch["images"]), batch["masks"]);
  };
  const TrainingPlan plan =
      plan_training(recipe, {.bytes = 1024 * kMiB, .batch = 10, .micro_batch = 4});
  RandomSource source(recipe, 10, 100);
  auto losses_of = [&](int failing) {
    Training training = plan.begin();
    const std::optional<HostExamples> batch = source.next();
    std::vector<double> losses;
    for (int i = 0; i < 3; ++i) {
      if (i == 1 && failing > 0) {
        *fails_in = failing;
        const int64_t live = training.account()->stats().live;
        CHECK_THROWS_WITH_AS(training.update(*batch, 0.01), doctest::Contains("the loss failed"),
                             ValueError);
        CHECK(training.account()->stats().live == live);
      }
      losses.push_back(training.update(*batch, 0.01));
    }
    return losses;
  };
  const std::vector<double> whole = losses_of(0);
  CHECK(losses_of(2) == whole);
  CHECK(losses_of(3) == whole);
}

TEST_CASE("plan_training: two trainings at a time are each on their own account") {
  const Recipe recipe = regression();
  const TrainingPlan small = plan_training(recipe, {.bytes = kMiB, .batch = 8}),
                     large = plan_training(recipe, {.bytes = 2 * kMiB, .batch = 64});
  RandomSource eight(recipe, 8, 9), many(recipe, 64, 9);
  std::optional<Training> first = small.begin();
  std::optional<Training> second = large.begin();
  const HostExamples few = *eight.next(), more = *many.next();
  for (int i = 0; i < 3; ++i) {
    first->update(few, 0.01);
    second->update(more, 0.01);
  }
  CHECK(first->account()->stats().peak_reserved == small.predicted().peak_reserved);
  first.reset();  // before the other
  second->update(more, 0.01);
  CHECK(second->account()->stats().peak_reserved == large.predicted().peak_reserved);
  CHECK(second->account()->stats().mismatches == 0);
}

TEST_CASE("plan_training: a model's values are its own, those of a file, or initial ones") {
  const Budget budget{.bytes = kMiB, .batch = 4};
  Recipe recipe = regression();
  auto first_weight = [&] {
    return plan_training(recipe, budget)
        .begin()
        .model()
        .tensor("size.weight")
        .to_vector<float>()[0];
  };
  const float initial = first_weight();
  recipe.seed = 1;
  CHECK(first_weight() != initial);
  recipe.values = [](nn::Module& model) {
    for (const nn::NamedTensor& named : model.named_parameters()) fill(named.tensor, 0.25);
  };
  CHECK(first_weight() == 0.25f);
  recipe.values = [](nn::Module& model) { fill(model.tensor("size.weight"), 0.25); };
  CHECK_THROWS_WITH_AS(first_weight(), doctest::Contains(" has no values yet"), ValueError);
}

TEST_CASE("array source: arrays that do not go together are refused") {
  const std::vector<BatchTensor> described{{"x", {2}}, {"y", {}}};
  const std::vector<std::byte> bytes(64);
  auto check_refused = [&](std::vector<size_t> sizes, int64_t batch, const char* text) {
    std::vector<std::span<const std::byte>> arrays;
    for (const size_t size : sizes) arrays.push_back(std::span(bytes).first(size));
    CHECK_THROWS_WITH_AS(ArraySource(described, batch, arrays), doctest::Contains(text),
                         ValueError);
  };
  check_refused({64}, 2, "expected an array for each of 2 tensors, got 1");
  check_refused({60, 32}, 2, "expected whole examples of 8 bytes in 'x', got 60 bytes");
  check_refused({64, 28}, 2, "'y' has 7 examples, and 'x' 8");
  check_refused({64, 32}, 9, "expected at least the 9 examples of a batch, got 8");
  check_refused({64, 32}, 0, "expected a batch of at least 1, got 0");
}
