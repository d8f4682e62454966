#include "brim/train/step_graph.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "brim/base/cuda/graph.h"
#include "brim/base/cuda/memory.h"
#include "brim/base/cuda/stream.h"
#include "brim/base/parallel.h"
#include "brim/base/stop.h"
#include "brim/core/call_list.h"
#include "brim/core/launch.h"
#include "brim/optim/ema.h"

namespace brim {
namespace {

constexpr const char* kTag = "step graph";

Tensor element_of(const Tensor& vector, int64_t i) {
  return {vector.storage(), {{1}, {1}, i, vector.dtype()}};
}

}  // namespace

/// The graph of an update, or its calls, and how to start it.
struct StepGraph::Recorded {
  ~Recorded() {
    for (const memory::Block& block : blocks) host->release(block);
  }

  std::shared_ptr<memory::Account> host;
  std::vector<memory::Block> blocks;  // pinned, of the host

  /// A copy from the host of these bytes of input `input`. On a GPU it reads `pinned`, where they
  /// belong; on the CPU from where `upload` says.
  struct Copy {
    size_t input = 0, offset = 0;
    void* pinned = nullptr;
    CallList::Upload* upload = nullptr;
    size_t bytes = 0;
  };
  std::vector<Copy> copies;
  double* numbers = nullptr;  // for the host: where the device leaves those of `LiveNumber`
  std::optional<cuda::Graph> graph;
  std::optional<CallList> calls;
  bool is_there() const { return graph || calls; }

  int threads = 0;  // for which kernels have their scratch

  // What the addresses in it follow from: the plan, held so that no other has its place,
  // and where the arena is, of which these are.
  std::shared_ptr<const memory::Plan> plan;
  std::vector<const void*> addresses;
  std::vector<uint64_t> live;  // buffers between two updates, by number
  bool followed_plan = false;  // did an update of the kind, as it is?
  std::string refusal;         // why it cannot be recorded; "" where it can
};

/// What an update changes on the host. To record one is not to do it.
struct StepGraph::HostState {
  explicit HostState(TrainStep& step)
      : step(step),
        updates(step.updates()),
        skipped(step.skipped()),
        steps(step.optimizer_.steps()) {
    if (step.options_.ema != nullptr) averaged = step.options_.ema->updates();
    if (step.scaler() != nullptr) scale = step.scaler()->state();
  }
  ~HostState() {
    step.set_updates(updates, skipped);
    step.optimizer_.set_steps(steps);
    if (step.options_.ema != nullptr) step.options_.ema->set_updates(averaged);
    if (step.scaler() != nullptr) step.scaler()->set_state(scale);
  }

  TrainStep& step;
  int64_t updates, skipped, steps, averaged = 0;
  optim::LossScalerState scale;
};

StepGraph::StepGraph(TrainStep& step)
    : step_(step),
      host_(step.device().is_cuda() ? autograd::offload_host(step.device(), 0) : nullptr) {
  expect<ValueError>(step.options_.graph, kTag, "expected a step with the option graph");
  expect<DeviceError>(!step.device().is_meta(), kTag, "expected a model with values, got one on {}",
                      step.device());
  expect<ValueError>(step.offload() == nullptr, kTag,
                     "copies to the host and back are not recorded: leave offload or graph off");
}

StepGraph::~StepGraph() = default;

double StepGraph::run(const Update& update) {
  if (!step_.torn_.empty()) return update.run();  // which says so
  Kind kind;
  for (const auto& input : update.inputs) kind.push_back(input.size());
  std::unique_ptr<Recorded>& recorded = graphs_[kind];
  auto plan = memory::account(step_.device())->plan();
  if (recorded == nullptr || recorded->plan != plan || recorded->addresses != addresses() ||
      recorded->threads != num_threads()) {
    recorded = std::make_unique<Recorded>();
    recorded->threads = num_threads();
    recorded->host = host_;
    recorded->plan = std::move(plan);
    recorded->addresses = addresses();
  }
  if (!recorded->followed_plan) return run_as_it_is(update, *recorded);
  if (!recorded->is_there() && recorded->refusal.empty()) record(update, *recorded);
  why_not_ = recorded->refusal;
  if (why_not_.empty() && recorded->live != live_buffers())
    why_not_ = "other tensors are held than when it was recorded";
  if (!why_not_.empty()) return update.run();
  try {
    if (const std::optional<double> loss = replay(update, *recorded)) return *loss;
    why_not_ = "its loss or a gradient was not finite";
  } catch (const TornUpdate&) {
    throw;
  } catch (const Error& error) {
    why_not_ = error.what();  // of a kernel, before anything changed for good
  }
  return update.run();
}

// Only what asks for nothing beyond a plan gets the same addresses again.
double StepGraph::run_as_it_is(const Update& update, Recorded& recorded) {
  const auto account = memory::account(step_.device());
  const int64_t mismatches = account->stats().mismatches;
  const double loss = update.run();
  recorded.followed_plan = account->reserves_steps() && account->stats().mismatches == mismatches;
  why_not_ = !account->reserves_steps()
                 ? fmt::format("the {} planner promises no addresses, as the arena does",
                               account->planner_name())
             : recorded.followed_plan ? "the first update of its kind is run as it is"
                                      : "it asked for other bytes than planned";
  return loss;
}

// ---- Recording

void StepGraph::record(const Update& update, Recorded& recorded) {
  const StopScope whole(nullptr);  // half a recording is of no use
  const auto account = memory::account(step_.device());
  const int64_t mismatches = account->stats().mismatches;
  try {
    require_moved_by_kernel();
    recorded.live = live_buffers();
    record_parts(update, recorded);
    find_inputs(update, recorded);
    expect<ValueError>(account->stats().mismatches == mismatches, kTag,
                       "it asked for other bytes than planned");
  } catch (const Error& error) {
    recorded.refusal = error.what();
    recorded.graph.reset();
    recorded.calls.reset();
  }
}

void StepGraph::record_parts(const Update& update, Recorded& recorded) {
  const HostState restored(step_);
  const struct Scope {
    Scope(StepGraph& graph, Recorded& recorded) : graph(graph) {
      graph.step_.recorder_ = &graph;
      graph.recorded_ = &recorded;
    }
    ~Scope() { graph.step_.recorder_ = nullptr, graph.recorded_ = nullptr; }
    StepGraph& graph;
  } scope(*this, recorded);
  weight_ = update.weight;
  if (step_.device().is_cuda())
    record_graph(update, recorded);
  else
    record_calls(update, recorded);
}

void StepGraph::record_graph(const Update& update, Recorded& recorded) {
  cuda::Recording recording(step_.device(), [&](int64_t bytes) { return pinned(bytes, recorded); });
  update.run();
  const int64_t bytes = kLiveNumbers * size_of(Dtype::float64);
  void* numbers = pinned(bytes, recorded);
  cuda::enqueue_copy(cuda::default_stream(step_.device()), numbers, step_.live_.data(), bytes,
                     cuda::CopyKind::to_host);
  recorded.numbers = static_cast<double*>(numbers);
  recorded.graph = recording.finish();
  for (const cuda::Recording::Upload& upload : recording.uploads())
    recorded.copies.push_back({.offset = reinterpret_cast<uintptr_t>(upload.from),
                               .pinned = upload.pinned,
                               .bytes = static_cast<size_t>(upload.bytes)});
}

void StepGraph::record_calls(const Update& update, Recorded& recorded) {
  CallRecording recording;
  update.run();
  recorded.calls = recording.finish();
  recorded.numbers = static_cast<double*>(step_.live_.data());
  for (const auto& upload : recorded.calls->uploads())
    recorded.copies.push_back({.offset = reinterpret_cast<uintptr_t>(upload->from),
                               .upload = upload.get(),
                               .bytes = static_cast<size_t>(upload->bytes)});
}

// `take_home` cannot fail.
void StepGraph::require_moved_by_kernel() const {
  for (const auto& [buffer, shadow] : step_.shadows_)
    expect<DtypeError>(has_kernel(kernel::ema.name, step_.device().type, buffer.dtype()), kTag,
                       "a buffer of {} is not taken over by the device alone", buffer.dtype());
}

// Which bytes of the inputs the copies took.
void StepGraph::find_inputs(const Update& update, Recorded& recorded) const {
  for (Recorded::Copy& copy : recorded.copies) {
    const uintptr_t from = copy.offset;
    size_t i = 0;
    for (; i < update.inputs.size(); ++i) {
      const auto begin = reinterpret_cast<uintptr_t>(update.inputs[i].data());
      if (from < begin || from + copy.bytes > begin + update.inputs[i].size()) continue;
      copy.input = i;
      copy.offset = from - begin;
      break;
    }
    expect<ValueError>(i < update.inputs.size(), kTag,
                       "{} bytes that are no input of it are copied to the device", copy.bytes);
  }
}

void* StepGraph::pinned(int64_t bytes, Recorded& recorded) {
  recorded.blocks.reserve(recorded.blocks.size() + 1);
  recorded.blocks.push_back(host_->allocate(bytes, memory::Category::input));
  return recorded.blocks.back().address();
}

Tensor StepGraph::gradient_of(const Tensor& loss, double weight) {
  expect<ValueError>(weight == weight_, kTag, "its parts weigh {} and {}", weight_, weight);
  Tensor gradient = empty(loss.shape(), {.dtype = loss.dtype(), .device = loss.device()});
  copy_into(element_of(gradient, 0), element_of(step_.live_, kLiveGradient));
  return gradient;
}

void StepGraph::note_loss(const Tensor& loss) {
  const Tensor part = element_of(step_.live_, kLivePart);
  copy_into(part, {loss.storage(), {{1}, {1}, loss.layout().offset, loss.dtype()}});
  accumulate_into(element_of(step_.live_, kLiveLoss), part);
}

// Between `prepare` and `commit`: what is launched behind it does nothing where the verdict says
// so.
void StepGraph::judge() {
  step_.optimizer_.judge_on_device(
      element_of(step_.live_, kLiveLoss), verdict(),
      step_.options_.ema == nullptr ? Tensor() : step_.options_.ema->rest());
}

// Between the forward pass and backward, of a fused update.
void StepGraph::judge_pieces() {
  step_.optimizer_.judge_pieces_on_device(element_of(step_.live_, kLiveLoss), verdict());
}

Tensor StepGraph::verdict() const {
  return {step_.live_.storage(), {{optim::kVerdictNumbers}, {1}, kLiveVerdict, Dtype::float64}};
}

// An average that moves all the way, or not at all.
void StepGraph::take_home(const Tensor& buffer, const Tensor& shadow) const {
  launch(kernel::ema, buffer.dtype(), {shadow, element_of(step_.live_, kLiveApplied)}, {buffer});
}

// ---- Replaying

void StepGraph::start(Recorded& recorded) const {
  if (recorded.calls) return recorded.calls->run();
  recorded.graph->start();
  cuda::default_stream(step_.device()).synchronize();
}

// As a fused update that runs as it is: what fails once parameters have changed is torn.
void StepGraph::start_or_tear(Recorded& recorded) {
  try {
    start(recorded);
    if (recorded.numbers[kLiveApplied] == 0 && recorded.numbers[kLivePieces] > 0)
      step_.optimizer_.raise_not_finite();
  } catch (...) {
    if (!step_.options_.fused_update || recorded.numbers[kLivePieces] == 0) throw;
    step_.tear(static_cast<int64_t>(recorded.numbers[kLivePieces]));
  }
}

// Nothing where something was not finite: nothing has changed then.
std::optional<double> StepGraph::replay(const Update& update, Recorded& recorded) {
  write_numbers(update, recorded);
  start_or_tear(recorded);
  if (recorded.numbers[kLiveApplied] == 0) return {};
  count_update(recorded.numbers[kLiveVerdict + int{optim::kVerdictNorm}]);
  ++replays_;
  why_not_.clear();
  return recorded.numbers[kLiveLoss];
}

void StepGraph::write_numbers(const Update& update, Recorded& recorded) {
  for (const Recorded::Copy& copy : recorded.copies) {
    const std::byte* from = update.inputs[copy.input].data() + copy.offset;
    if (copy.upload != nullptr)
      copy.upload->from = from;
    else
      std::memcpy(copy.pinned, from, copy.bytes);
  }
  const double scale = step_.scaler() == nullptr ? 1 : step_.scaler()->scale();
  fill(element_of(step_.live_, kLiveUpdate), static_cast<double>(step_.attempts()));
  fill(element_of(step_.live_, kLiveGradient), scale * update.weight);
  fill(element_of(step_.live_, kLiveLoss), 0);
  fill(element_of(step_.live_, kLivePieces), 0);
  recorded.numbers[kLivePieces] = 0;  // should nothing be started
  step_.optimizer_.begin_replay(
      {.rate = update.rate, .loss_scale = scale, .clip = step_.options_.clip});
  if (step_.options_.ema != nullptr) step_.options_.ema->begin_replay();
}

void StepGraph::count_update(double norm) {
  step_.optimizer_.end_replay(norm);
  if (step_.options_.ema != nullptr) step_.options_.ema->end_replay();
  for (const Tensor& parameter : step_.parameters_) parameter.storage()->note_write(kTag);
  for (const auto& [buffer, shadow] : step_.shadows_) buffer.storage()->note_write(kTag);
  if (step_.scaler() != nullptr) step_.scaler()->update();
  step_.outcome_ = Applied{};
  ++step_.updates_;
}

std::vector<uint64_t> StepGraph::live_buffers() const {
  std::vector<uint64_t> numbers;
  memory::account(step_.device())->for_each_live([&](const memory::LiveBuffer& buffer) {
    numbers.push_back(buffer.id);
  });
  return numbers;
}

std::vector<const void*> StepGraph::addresses() const {
  std::vector<const void*> found{memory::account(step_.device()).get(), step_.live_.data()};
  for (const Tensor& parameter : step_.parameters_) found.push_back(parameter.data());
  for (const auto& [buffer, shadow] : step_.shadows_) found.push_back(buffer.data());
  return found;
}

}  // namespace brim
