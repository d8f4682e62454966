#include "brim/tests/support/cuda_emulator/threads.h"

#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "brim/base/error.h"

namespace brim::cuda::emulator {
namespace {

constexpr unsigned kLanes = 32, kMaxThreads = 1024;
constexpr size_t kMaxShared = 48 * 1024;    // more is for those that ask (cudaFuncSetAttribute)
constexpr size_t kStackBytes = 128 * 1024;  // of a fiber; AddressSanitizer's frames are large

enum class State { ready, at_barrier, with_warp, done };

struct WarpCall {
  WarpOp op = WarpOp::sync;
  unsigned mask = 0;
  uint64_t value = 0, result = 0;
  int from = 0;
};

struct Fiber {
  State state = State::done;
  Place place;
  WarpCall call;
  ucontext_t context{};
  std::unique_ptr<char[]> stack;
};

ThreadOrder order_in_force = ThreadOrder::forward;

/// A host thread's fibers, which are kept from block to block.
class Machine {
 public:
  void run(const char* kernel, const Size& blocks, const Size& threads, size_t shared_bytes,
           const std::function<void()>& body);

  Fiber& running() { return *running_; }
  void* shared() { return shared_.get(); }
  /// Back to the scheduler.
  void wait(State state) {
    running_->state = state;
    swapcontext(&running_->context, &scheduler_);
  }

 private:
  void expect_of(const Fiber& fiber, bool ok, const char* text) const {
    const Index &t = fiber.place.thread, &b = fiber.place.block;
    expect<DeviceError>(ok, "cuda", "{}: thread ({},{},{}) of block ({},{},{}) {}", kernel_, t.x,
                        t.y, t.z, b.x, b.y, b.z, text);
  }

  static void enter();
  void start(size_t number, const Place& place);
  void run_block(const Place& first, size_t shared_bytes);
  std::vector<size_t> order();
  void resume(Fiber& fiber);
  bool release_warps();
  bool release_warp(size_t first);
  bool release(std::span<Fiber> warp, const WarpCall& call);
  bool release_barrier();
  [[noreturn]] void raise_stuck() const;

  std::vector<Fiber> fibers_;
  size_t count_ = 0;  // of the block's threads
  ucontext_t scheduler_{};
  Fiber* running_ = nullptr;
  std::unique_ptr<char[]> shared_;
  const char* kernel_ = "";
  const std::function<void()>* body_ = nullptr;
  std::exception_ptr thrown_;
  std::mt19937 shuffle_{1};
};

Machine& machine() {
  thread_local Machine machine;
  return machine;
}

void Machine::enter() {
  Machine& self = machine();
  try {
    (*self.body_)();
  } catch (...) {
    self.thrown_ = std::current_exception();
  }
  self.wait(State::done);
}

void Machine::start(size_t number, const Place& place) {
  Fiber& fiber = fibers_[number];
  if (!fiber.stack) fiber.stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
  getcontext(&fiber.context);
  fiber.context.uc_stack = {.ss_sp = fiber.stack.get(), .ss_flags = 0, .ss_size = kStackBytes};
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, enter, 0);
  fiber.place = place;
  fiber.state = State::ready;
}

void Machine::resume(Fiber& fiber) {
  running_ = &fiber;
  swapcontext(&scheduler_, &fiber.context);
  if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

std::vector<size_t> Machine::order() {
  std::vector<size_t> order(count_);
  std::iota(order.begin(), order.end(), size_t{0});
  if (order_in_force == ThreadOrder::backward) std::ranges::reverse(order);
  if (order_in_force == ThreadOrder::shuffled) std::ranges::shuffle(order, shuffle_);
  return order;
}

void Machine::run_block(const Place& first, size_t shared_bytes) {
  shared_ = std::make_unique_for_overwrite<char[]>(shared_bytes);
  std::memset(shared_.get(), 0xff, shared_bytes);
  const Size& threads = first.threads;
  size_t number = 0;
  for (unsigned z = 0; z < threads.z; ++z)
    for (unsigned y = 0; y < threads.y; ++y)
      for (unsigned x = 0; x < threads.x; ++x) {
        Place place = first;
        place.thread = {x, y, z};
        start(number++, place);
      }
  while (true) {
    for (size_t i : order())
      if (fibers_[i].state == State::ready) resume(fibers_[i]);
    const auto block = std::span(fibers_).first(count_);
    if (std::ranges::all_of(block, [](const Fiber& f) { return f.state == State::done; })) return;
    if (!release_warps() && !release_barrier()) raise_stuck();
  }
}

bool Machine::release_warps() {
  bool released = false;
  for (size_t first = 0; first < count_; first += kLanes) released |= release_warp(first);
  return released;
}

bool Machine::release_warp(size_t first) {
  const auto warp = std::span(fibers_).subspan(first, std::min<size_t>(kLanes, count_ - first));
  bool released = false;
  for (const Fiber& fiber : warp)
    if (fiber.state == State::with_warp) released |= release(warp, WarpCall(fiber.call));
  return released;
}

// The lanes of the call's mask, where all of them wait at the like.
bool Machine::release(std::span<Fiber> warp, const WarpCall& call) {
  unsigned ballot = 0;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    if ((call.mask >> lane & 1) == 0) continue;
    if (lane >= warp.size() || warp[lane].state != State::with_warp ||
        warp[lane].call.op != call.op || warp[lane].call.mask != call.mask)
      return false;
    if (warp[lane].call.value != 0) ballot |= 1u << lane;
  }
  for (unsigned lane = 0; lane < warp.size(); ++lane) {
    if ((call.mask >> lane & 1) == 0) continue;
    Fiber& fiber = warp[lane];
    if (call.op == WarpOp::ballot) fiber.call.result = ballot;
    if (call.op == WarpOp::shuffle) {
      expect_of(fiber, (call.mask >> fiber.call.from & 1) != 0,
                "shuffles with a lane that is not in its mask");
      fiber.call.result = warp[static_cast<size_t>(fiber.call.from)].call.value;
    }
    fiber.state = State::ready;
  }
  return true;
}

bool Machine::release_barrier() {
  const auto block = std::span(fibers_).first(count_);
  if (!std::ranges::all_of(block, [](const Fiber& f) { return f.state == State::at_barrier; }))
    return false;
  for (Fiber& fiber : block) fiber.state = State::ready;
  return true;
}

void Machine::raise_stuck() const {
  const auto block = std::span(fibers_).first(count_);
  for (const Fiber& fiber : block)
    expect_of(fiber, fiber.state != State::with_warp,
              "waits for lanes of its mask that do not come");
  for (const Fiber& fiber : block)
    expect_of(fiber, fiber.state != State::at_barrier,
              "waits at a barrier that others never reach");
  raise<InternalError>("cuda", "{}: the emulated block is stuck", kernel_);
}

void Machine::run(const char* kernel, const Size& blocks, const Size& threads, size_t shared_bytes,
                  const std::function<void()>& body) {
  kernel_ = kernel;
  body_ = &body;
  count_ = size_t{threads.x} * threads.y * threads.z;
  expect<DeviceError>(count_ > 0 && count_ <= kMaxThreads && threads.z <= 64, "cuda",
                      "{}: no GPU has blocks of {} x {} x {} threads", kernel, threads.x, threads.y,
                      threads.z);
  expect<DeviceError>(size_t{blocks.x} * blocks.y * blocks.z > 0 && blocks.y <= 65535 &&
                          blocks.z <= 65535 && blocks.x <= 2147483647u,
                      "cuda", "{}: no GPU has grids of {} x {} x {} blocks", kernel, blocks.x,
                      blocks.y, blocks.z);
  expect<DeviceError>(shared_bytes <= kMaxShared, "cuda", "{}: no GPU has {} shared bytes a block",
                      kernel, shared_bytes);
  if (fibers_.size() < count_) fibers_.resize(count_);
  for (unsigned z = 0; z < blocks.z; ++z)
    for (unsigned y = 0; y < blocks.y; ++y)
      for (unsigned x = 0; x < blocks.x; ++x)
        run_block({.thread = {}, .block = {x, y, z}, .threads = threads, .blocks = blocks},
                  shared_bytes);
}

}  // namespace

void set_thread_order(ThreadOrder order) { order_in_force = order; }

void run(const char* kernel, const Size& blocks, const Size& threads, size_t shared_bytes,
         const std::function<void()>& body) {
  machine().run(kernel, blocks, threads, shared_bytes, body);
  check_guards(kernel);
}

const Place& place() { return machine().running().place; }
void* shared_memory() { return machine().shared(); }
void barrier() { machine().wait(State::at_barrier); }

uint64_t with_warp(WarpOp op, unsigned mask, uint64_t value, int from) {
  Fiber& fiber = machine().running();
  const Place& p = fiber.place;
  const unsigned thread = p.thread.x + p.threads.x * (p.thread.y + p.threads.y * p.thread.z);
  expect<DeviceError>((mask >> thread % kLanes & 1) != 0, "cuda",
                      "a thread is not in the mask of its own warp operation");
  fiber.call = {.op = op, .mask = mask, .value = value, .from = from};
  machine().wait(State::with_warp);
  return fiber.call.result;
}

}  // namespace brim::cuda::emulator
