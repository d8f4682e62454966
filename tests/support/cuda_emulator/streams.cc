#include "brim/tests/support/cuda_emulator/streams.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <mutex>
#include <ranges>
#include <utility>
#include <vector>

namespace brim::cuda::emulator {
namespace {

/// Comes after a mark of another queue, or is work.
struct Piece {
  Mark after;
  std::function<void()> work;
};

}  // namespace

struct StreamQueue {
  std::deque<Piece> pieces;
  size_t done = 0;  // of them, since it was made
};

namespace {

struct Queues {
  std::mutex mutex;
  std::vector<std::shared_ptr<StreamQueue>> all;  // the oldest first
  std::vector<std::function<void()>> when_idle;
  OtherStreams others = OtherStreams::stay;
  std::atomic<bool> is_lost = false;
};
Queues& queues() {
  static auto* queues = new Queues;
  return *queues;
}

bool is_passed(const Mark& mark) { return mark.queue == nullptr || mark.queue->done >= mark.after; }

size_t end(const StreamQueue& queue) { return queue.done + queue.pieces.size(); }

void run(StreamQueue& queue, size_t until);

void run_first(StreamQueue& queue) {
  const Piece piece = std::move(queue.pieces.front());
  queue.pieces.pop_front();
  ++queue.done;
  if (piece.after.queue != nullptr) run(*piece.after.queue, piece.after.after);
  try {
    if (piece.work) piece.work();
  } catch (const std::exception&) {
    queues().is_lost = true;
  }
}

// A mark is older than what waits for it: no queue comes to need itself.
void run(StreamQueue& queue, size_t until) {
  while (queue.done < until) run_first(queue);
}

// As far as it comes by itself.
void run_ahead(StreamQueue& queue) {
  while (!queue.pieces.empty() && is_passed(queue.pieces.front().after)) run_first(queue);
}

void run_with_others(StreamQueue& queue, size_t until) {
  Queues& now = queues();
  if (queue.done >= until) return;
  if (now.others == OtherStreams::run_ahead)
    for (const auto& other : std::views::reverse(now.all))
      if (other.get() != &queue) run_ahead(*other);
  run(queue, until);
}

bool is_idle() {
  return std::ranges::all_of(queues().all, [](const auto& queue) { return queue->pieces.empty(); });
}

void note_idle() {
  if (!is_idle()) return;
  for (const std::function<void()>& done : std::exchange(queues().when_idle, {})) done();
}

}  // namespace

std::shared_ptr<StreamQueue> new_queue() {
  auto made = std::make_shared<StreamQueue>();
  std::lock_guard lock(queues().mutex);
  queues().all.push_back(made);
  return made;
}

void add(StreamQueue& queue, std::function<void()> work) {
  std::lock_guard lock(queues().mutex);
  queue.pieces.push_back({.after = {}, .work = std::move(work)});
}

void add_wait(StreamQueue& queue, Mark mark) {
  std::lock_guard lock(queues().mutex);
  if (!is_passed(mark)) queue.pieces.push_back({.after = std::move(mark), .work = {}});
}

Mark end_of(const std::shared_ptr<StreamQueue>& queue) {
  std::lock_guard lock(queues().mutex);
  return {.queue = queue, .after = end(*queue)};
}

bool is_reached(const Mark& mark) {
  std::lock_guard lock(queues().mutex);
  return is_passed(mark);
}

void run_to(const Mark& mark) {
  std::lock_guard lock(queues().mutex);
  if (mark.queue != nullptr) run_with_others(*mark.queue, mark.after);
  note_idle();
}

void run_all() {
  std::lock_guard lock(queues().mutex);
  for (const auto& queue : queues().all) run_with_others(*queue, end(*queue));
  note_idle();
  // Of streams that are gone, and no event's.
  std::erase_if(queues().all, [](const auto& queue) { return queue.use_count() == 1; });
}

void set_other_streams(OtherStreams others) { queues().others = others; }

void when_idle(std::function<void()> done) {
  std::lock_guard lock(queues().mutex);
  queues().when_idle.push_back(std::move(done));
  note_idle();
}

bool is_lost() { return queues().is_lost; }
void forgive() { queues().is_lost = false; }

size_t work_left() {
  std::lock_guard lock(queues().mutex);
  size_t left = 0;
  for (const auto& queue : queues().all)
    left += static_cast<size_t>(
        std::ranges::count_if(queue->pieces, [](const Piece& piece) { return bool(piece.work); }));
  return left;
}

}  // namespace brim::cuda::emulator
