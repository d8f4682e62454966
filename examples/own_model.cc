// A model of two inputs with a loss of one's own, planned and trained within a budget: the price of
// a house from its sizes and its place, where a price that is too low costs twice as much.
#include <cstdio>
#include <vector>

#include "brim/brim.h"

using namespace brim;

struct Prices final : nn::Module {
  nn::Linear size{2, 32}, place{3, 32}, price{32, 1};
  Prices() { register_modules({{"size", size}, {"place", place}, {"price", price}}); }
  Tensor forward(Tensor sizes, Tensor places) override {
    return price(relu(size(sizes) + place(places)));
  }
};

Tensor lopsided(nn::Module& prices, const Batch& batch) {
  const Tensor error = prices(batch["sizes"], batch["places"]) - batch["price"];
  return (relu(error) + 2 * relu(-error)).mean();
}

int main() {
  const Recipe recipe{.model = [] { return std::make_shared<Prices>(); },
                      .optimizer = [](nn::Module& model) { return optim::adamw(model); },
                      .batch = {{"sizes", {2}}, {"places", {3}}, {"price", {1}}},
                      .loss = lopsided};
  const TrainingPlan plan = plan_training(recipe, {.bytes = 1 * MiB, .batch = 64});
  std::printf("%s\n", plan.table().c_str());
  if (!plan.fits()) return std::puts(plan.why_not().c_str()), 1;

  std::vector<float> sizes, places, price;  // drawn, with a price that they follow
  RandomStream random(RandomKey{1});
  for (int i = 0; i < 1024; ++i) {
    const float rooms = random.uniform(0, 1), garden = random.uniform(0, 1);
    const auto town = static_cast<size_t>(random.below(3));
    sizes.insert(sizes.end(), {rooms, garden});
    for (size_t k = 0; k < 3; ++k) places.push_back(k == town ? 1.0f : 0.0f);
    price.push_back(rooms * static_cast<float>(town + 1) + garden);
  }
  ArraySource source(recipe.batch, plan.batch(),
                     {std::as_bytes(std::span(sizes)), std::as_bytes(std::span(places)),
                      std::as_bytes(std::span(price))});
  double last = 0;
  const Training trained = plan.train(source, {.epochs = 30,
                                               .schedule = optim::ConstantSchedule{.rate = 1e-2},
                                               .on_update = [&](int64_t, double l) { last = l; }});
  std::printf("held %lld bytes, as predicted %lld; loss %.3f\n",
              static_cast<long long>(trained.account()->stats().peak_reserved),
              static_cast<long long>(plan.predicted().peak_reserved), last);
}
