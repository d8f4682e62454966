#include "brim/optim/ema.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "brim/core/batch.h"
#include "brim/core/call_list.h"
#include "brim/optim/optimizer.h"
#include "brim/optim/require_kernel.h"

namespace brim::optim {
namespace {

bool changes(const nn::Module::Slot& slot, const EmaOptions& options) {
  if (!is_floating(slot.tensor->dtype())) return false;
  return slot.is_parameter ? slot.tensor->requires_grad()
                           : options.buffers && slot.owner->training();
}

double decay_of(const EmaOptions& options, int64_t update) {
  if (update == 0) return 0;
  auto n = static_cast<double>(update);
  return options.warmup ? std::min(options.decay, (1 + n) / (10 + n)) : options.decay;
}

}  // namespace

Ema::Ema(nn::Module& model, const EmaOptions& options) : options_(options) {
  require_in_range("ema", "decay", options.decay, 0, std::nextafter(1.0, 0.0));
  memory::CategoryScope category(memory::Category::optimizer);
  std::set<const TensorBody*> taken;  // a tensor may be a member of several modules
  model.for_each_slot([&](const std::string& name, const nn::Module::Slot& slot) {
    if (!changes(slot, options)) return;
    expect<DtypeError>(!is_low_precision(slot.tensor->dtype()), "ema",
                       "an average of {} would stand still: '{}' must be float32 or float64",
                       slot.tensor->dtype(), name);
    for (const char* kernel : {kernel::ema.name, kernel::ema_swap.name})
      require_kernel("ema", kernel, slot.tensor->device(), slot.tensor->dtype());
    expect<ShapeError>(slot.tensor->is_contiguous(), "ema", "expected '{}' to be contiguous", name);
    if (!taken.insert(slot.tensor->body()).second) return;
    memory::SiteScope site({.op = "ema", .module = &autograd::kept_path(name)});
    pairs_.push_back({name, *slot.tensor, clone(*slot.tensor)});
  });
  if (pairs_.empty()) return;
  memory::SiteScope site({.op = "ema"});
  rest_ = zeros({1}, {.dtype = Dtype::float64, .device = pairs_.front().value.device()});
}

void Ema::update() noexcept {
  begin_replay();
  {
    const BatchScope in_one_pass;
    for (const Pair& pair : pairs_)
      launch(kernel::ema, pair.average.dtype(), {pair.value, rest_}, {pair.average});
  }
  end_replay();
}

void Ema::begin_replay() noexcept {
  if (!is_recording() && rest_.defined()) fill(rest_, 1 - decay_of(options_, updates_));
}

void Ema::set_updates(int64_t updates) {
  expect<ValueError>(updates >= 0, "ema", "expected a number of updates from 0, got {}", updates);
  updates_ = updates;
}

std::vector<nn::NamedTensor> Ema::named_state() const {
  std::vector<nn::NamedTensor> state;
  for (const Pair& pair : pairs_) state.push_back({"ema." + pair.name, pair.average});
  return state;
}

void Ema::swap() noexcept {
  const BatchScope in_one_pass;
  for (const Pair& pair : pairs_) launch(kernel::ema_swap, {}, {pair.value, pair.average});
  in_use_ = !in_use_;
}

EmaScope::EmaScope(Ema& ema) : ema_(ema) {
  expect<ValueError>(!ema.in_use(), "ema", "the averages are in the model's place already");
  ema_.swap();
}

EmaScope::~EmaScope() { ema_.swap(); }

}  // namespace brim::optim
