#include "brim/optim/optimizer.h"

#include <cmath>
#include <limits>

#include "brim/base/stand_in.h"
#include "brim/core/batch.h"
#include "brim/core/call_list.h"
#include "brim/optim/judge.h"
#include "brim/optim/register_kernels.h"
#include "brim/optim/require_kernel.h"

namespace brim::optim {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor element_of(const Tensor& vector, size_t i) {
  return {vector.storage(), {{1}, {1}, static_cast<int64_t>(i), vector.dtype()}};
}

// Those that ask for a gradient: frozen ones have no state.
std::vector<nn::NamedTensor> trainable(const char* name, std::vector<nn::NamedTensor> parameters) {
  size_t given = parameters.size();
  std::erase_if(parameters, [](const nn::NamedTensor& p) { return !p.tensor.requires_grad(); });
  expect<ValueError>(!parameters.empty(), name,
                     "expected a parameter that asks for a gradient, got {} that do not", given);
  return parameters;
}

void require_valid(const char* name, const UpdateOptions& options) {
  require_in_range(name, "learning rate", options.rate, 0, kInfinity);
  expect<ValueError>(options.loss_scale > 0 && options.loss_scale < kInfinity, name,
                     "expected a positive loss scale, got {}", options.loss_scale);
  expect<ValueError>(options.clip.norm > 0, name, "expected a positive norm to clip to, got {}",
                     options.clip.norm);
  expect<ValueError>(options.clip.value > 0, name, "expected a positive value to clip to, got {}",
                     options.clip.value);
}

bool is_updated(Dtype dtype) {
  return dtype == Dtype::float32 || dtype == Dtype::float64 || dtype == Dtype::bfloat16;
}

// Stored gradients before those in factors: kernels gather as long as they are of one kind.
template <class Updates, class Body>
void by_kind(const Updates& updates, const Body& body) {
  for (const bool in_factors : {false, true})
    for (const auto& update : updates)
      if (update.gradient.factors.a.defined() == in_factors) body(update);
}

[[noreturn]] void raise_non_finite(const char* name, const std::string& parameter) {
  raise<ValueError>(name, "the gradient of '{}' is not finite: it has an infinity or a NaN",
                    parameter);
}

}  // namespace

void require_in_range(const char* optimizer, const char* option, double value, double low,
                      double high) {
  // Written so that NaN is refused too.
  if (value >= low && value <= high && value < kInfinity) return;
  if (high == kInfinity)
    raise<ValueError>(optimizer, "expected a {} of at least {}, got {}", option, low, value);
  raise<ValueError>(optimizer, "expected a {} from {} to {}, got {}", option, low, high, value);
}

Optimizer::Optimizer(const char* name, std::vector<nn::NamedTensor> parameters, double weight_decay,
                     const std::vector<ParameterGroup>& groups)
    : name_(name),
      parameters_(trainable(name, std::move(parameters))),
      settings_(settings_of(name, parameters_, groups, weight_decay)),
      scalars_(name, parameters_.front().tensor.device()) {
  Device device = scalars_.buffer().device();
  for (const auto& [parameter, tensor] : parameters_) {
    expect<DtypeError>(is_updated(tensor.dtype()), name_,
                       "expected float32, float64 or bfloat16, got {} for '{}'", tensor.dtype(),
                       parameter);
    expect<DeviceError>(tensor.device() == device, name_,
                        "expected all parameters on {}, got '{}' on {}", device, parameter,
                        tensor.device());
    expect<ShapeError>(tensor.is_contiguous(), name_, "expected '{}' to be contiguous", parameter);
    auto [first, is_new] = numbers_.emplace(tensor.body(), numbers_.size());
    expect<ValueError>(is_new, name_, "'{}' and '{}' are the same parameter",
                       parameters_[first->second].name, parameter);
  }
  updated_.resize(parameters_.size());
  factors_.resize(parameters_.size());
  memory::CategoryScope category(memory::Category::optimizer);
  memory::SiteScope site({.op = name_});
  square_sums_ = zeros({static_cast<int64_t>(parameters_.size())},
                       {.dtype = Dtype::float64, .device = device});
}

void Optimizer::require_kernel(std::string_view kernel) const {
  for (const nn::NamedTensor& parameter : parameters_)
    optim::require_kernel(name_, kernel, parameter.tensor.device(), parameter.tensor.dtype());
}

Tensor Optimizer::make_state(size_t i, Dtype dtype) const {
  expect<DtypeError>(dtype == Dtype::float32 || dtype == Dtype::bfloat16, name_,
                     "expected state of float32 or bfloat16, got {}", dtype);
  if (parameter(i).dtype() == Dtype::float64) dtype = Dtype::float64;
  memory::CategoryScope category(memory::Category::optimizer);
  memory::SiteScope site({.op = name_, .module = &autograd::kept_path(parameters_[i].name)});
  return zeros(parameter(i).shape(), {.dtype = dtype, .device = parameter(i).device()});
}

RandomKey Optimizer::rounding_key(uint64_t seed, const char* what, size_t i) const {
  return derive(derive(RandomKey{seed}, what), parameters_[i].name);
}

void Optimizer::prepare(const UpdateOptions& options) {
  if (const std::optional<std::string> parameter = prepare_if_finite(options))
    raise_non_finite(name_, *parameter);
}

void Optimizer::set_numbers(const UpdateOptions& options) {
  gradient_norm_.reset();
  options_ = options;
  values_ = {.rate = options.rate,
             .loss_scale = options.loss_scale,
             .step = steps_ + 1,
             .clip_value = options.clip.value,
             .clip_norm = options.clip.norm};
}

// The numbers of the step, where kernels read them; those of clipping by norm follow.
void Optimizer::begin_update(const UpdateOptions& options) {
  set_numbers(options);
  scalars_.write(values_);
}

void Optimizer::set_clip_factor() {
  if (options_.clip.norm == kInfinity) return;
  // On the meta device, and while an update is recorded, nobody knows the norm.
  if (gradient_norm_) values_.clip_factor = clip_factor(*gradient_norm_, options_.clip.norm);
  scalars_.write(values_);
}

std::optional<std::string> Optimizer::prepare_if_finite(const UpdateOptions& options) {
  cancel();
  gradient_norm_.reset();
  require_valid(name_, options);
  std::vector<Update> updates = take_gradients();
  expect<ValueError>(!updates.empty(), name_, "no parameter has a gradient: call backward first");
  begin_update(options);
  if (options.check_finite || options.clip.norm < kInfinity)
    if (std::optional<std::string> parameter = measure(updates)) return parameter;
  set_clip_factor();
  updates_ = std::move(updates);
  return {};
}

std::optional<std::string> Optimizer::find_non_finite() {
  cancel();
  const std::vector<Update> updates = take_gradients();
  begin_update({});
  std::optional<std::string> parameter = measure(updates);
  gradient_norm_.reset();  // of a part
  return parameter;
}

void Optimizer::sum_squares(const Update& update) {
  const auto& [whole, factors] = update.gradient;
  launch(kernel::square_sum, whole.defined() ? whole.dtype() : factors.a.dtype(),
         {whole, scalars(), factors.a, factors.b}, {element_of(square_sums_, update.parameter)});
}

std::optional<std::string> Optimizer::measure(const std::vector<Update>& updates) {
  // The device adds up all of them, also those of parameters without a gradient.
  if (is_recording() && updates.size() < parameters_.size()) fill(square_sums_, 0);
  {
    const BatchScope in_one_pass;
    by_kind(updates, [&](const Update& update) { sum_squares(update); });
  }
  if (square_sums_.device().is_meta() || is_recording()) return {};
  const double* sums = square_sums();
  if (options_.check_finite)
    for (const Update& update : updates)
      if (std::isnan(sums[update.parameter])) return parameters_[update.parameter].name;
  double total = 0;
  for (const Update& update : updates) total += sums[update.parameter];
  gradient_norm_ = std::sqrt(total);
  return {};
}

void Optimizer::begin_replay(const UpdateOptions& options) {
  cancel();
  require_valid(name_, options);
  set_numbers(options);
  values_.applied = false;
  scalars_.write(values_);
}

void Optimizer::judge_on_device(const Tensor& loss, const Tensor& verdict, const Tensor& rest) {
  launch(kernel::judge_update, Dtype::float64, {square_sums_, loss}, {scalars(), verdict, rest});
}

void Optimizer::judge_pieces_on_device(const Tensor& loss, const Tensor& verdict) {
  fill(square_sums_, 0);  // also of parameters without a piece: the device adds up all of them
  verdict_ = verdict;
  launch(kernel::judge_piece, Dtype::float64, {loss}, {scalars(), verdict_},
         {.judged = PieceJudged::loss});
}

void Optimizer::raise_not_finite() {
  const double* sums = square_sums();
  for (size_t i = parameters_.size(); i-- > 0;)
    if (std::isnan(sums[i])) raise_non_finite(name_, parameters_[i].name);
  raise<InternalError>(name_, "every gradient is finite");
}

void Optimizer::end_replay(double norm) noexcept {
  gradient_norm_ = norm;
  steps_ = values_.step;
}

const double* Optimizer::square_sums() {
  if (square_sums_.device().is_cpu()) return square_sums_.data<double>();
  square_sums_here_ = square_sums_.to_vector<double>();
  return square_sums_here_.data();
}

void Optimizer::commit() noexcept {
  if (updates_.empty()) return;
  {
    const BatchScope in_one_pass;
    by_kind(updates_, [&](const Update& each) { update(each.parameter, each.gradient, Tensor()); });
  }
  steps_ = values_.step;
  updates_.clear();
}

void Optimizer::cancel() noexcept {
  updates_.clear();
  verdict_ = Tensor();
  updated_.assign(updated_.size(), false);
}

void Optimizer::begin_pieces(const UpdateOptions& options) {
  cancel();
  require_valid(name_, options);
  expect<ValueError>(
      options.clip.norm == ClipOptions::kNone, name_,
      "an update in pieces cannot clip to a norm of {}: it is that of all gradients, "
      "and the first piece comes before the last gradient",
      options.clip.norm);
  expect<ValueError>(options.loss_scale == 1, name_,
                     "an update in pieces takes no loss scale, got {}: an overflow would be found "
                     "after the first piece",
                     options.loss_scale);
  begin_update(options);
}

bool Optimizer::update_piece(const Tensor& parameter) {
  auto found = numbers_.find(parameter.body());
  if (found == numbers_.end()) return false;
  const nn::NamedTensor& named = parameters_[found->second];
  expect<ValueError>(!updated_[found->second], name_, "'{}' was updated in this update already",
                     named.name);
  expect<ValueError>(parameter.grad().defined(), name_, "'{}' has no gradient", named.name);
  require_match(named, parameter.grad());
  update_checked({found->second, {contiguous(parameter.grad())}});
  return true;
}

void Optimizer::update_piece(const Tensor& parameter, const autograd::GradientFactors& factors) {
  autograd::GradientFactors matrices = matrices_of(parameter, factors);
  update_checked({numbers_.at(parameter.body()), {Tensor(), std::move(matrices)}});
}

bool Optimizer::checks_on_the_way() const {
  return pieces() > 0 && leaves_square_sums() && !device_meant(scalars().device()).is_cuda();
}

// Before the first piece a gradient is checked apart: nothing has changed yet. After it nothing can
// be undone, so others are checked while they are read for the update, where a kernel does both.
void Optimizer::update_checked(const Update& piece) {
  const size_t i = piece.parameter;
  const bool checks = options_.check_finite;
  const bool on_the_way = checks && checks_on_the_way();
  if (checks && !on_the_way) {
    sum_squares(piece);
    check_sum(i, PieceJudged::gradient);
  }
  update(i, piece.gradient, on_the_way ? element_of(square_sums_, i) : Tensor());
  updated_[i] = true;
  if (on_the_way) check_sum(i, PieceJudged::updated);
}

void Optimizer::check_sum(size_t parameter, PieceJudged judged) {
  const Tensor sum = element_of(square_sums_, parameter);
  if (sum.device().is_meta()) return;
  if (verdict_.defined())
    launch(kernel::judge_piece, Dtype::float64, {sum}, {scalars(), verdict_}, {.judged = judged});
  else if (std::isnan(sum.item<double>()))
    raise_non_finite(name_, parameters_[parameter].name);
}

void Optimizer::end_pieces() {
  expect<ValueError>(pieces() > 0, name_, "no parameter has a gradient: call backward first");
  if (options_.check_finite && !square_sums_.device().is_meta() && !is_recording()) {
    const double* sums = square_sums();
    double total = 0;  // in the order of `measure`: the same bits
    for (size_t i = 0; i < updated_.size(); ++i)
      if (updated_[i]) total += sums[i];
    gradient_norm_ = std::sqrt(total);
  }
  steps_ = values_.step;
  cancel();
}

void Optimizer::set_steps(int64_t steps) {
  expect<ValueError>(steps >= 0, name_, "expected a number of updates from 0, got {}", steps);
  steps_ = steps;
}

}  // namespace brim::optim
