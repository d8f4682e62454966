#include "brim/train/launch_clock.h"

#include <chrono>
#include <deque>
#include <utility>

#include "brim/base/cuda/event.h"
#include "brim/base/cuda/stream.h"
#include "brim/memory/stream.h"

namespace brim {
namespace {

using Clock = std::chrono::steady_clock;

class HostClock final : public LaunchClock {
 public:
  void begin() override { begin_ = Clock::now(); }
  void end() override {
    const Clock::time_point now = Clock::now();
    seconds_.push_back(std::chrono::duration<double>(now - begin_).count());
  }
  void wait() const override {}
  std::vector<double> take() override { return std::exchange(seconds_, {}); }

 private:
  Clock::time_point begin_;
  std::vector<double> seconds_;
};

class EventClock final : public LaunchClock {
 public:
  explicit EventClock(Device device) : device_(device) {}
  void begin() override {
    if (used_ == marks_.size()) marks_.emplace_back(device_);
    stream_ = &cuda::numbered_stream(device_, memory::current_stream());
    marks_[used_].begin.record(*stream_);
  }
  void end() override { marks_[used_++].end.record(*stream_); }
  void wait() const override {
    for (size_t i = 0; i < used_; ++i) marks_[i].end.synchronize();
    cuda::default_stream(device_).synchronize();
  }
  std::vector<double> take() override {
    wait();
    std::vector<double> seconds;
    for (size_t i = 0; i < used_; ++i)
      seconds.push_back(cuda::seconds_between(marks_[i].begin, marks_[i].end));
    used_ = 0;
    return seconds;
  }

 private:
  struct Marks {
    explicit Marks(Device device) : begin(device, {.timed = true}), end(device, {.timed = true}) {}
    cuda::Event begin, end;
  };

  Device device_;
  std::deque<Marks> marks_;  // kept for the launches of the next update
  size_t used_ = 0;
  const cuda::Stream* stream_ = nullptr;  // of the launch under way
};

}  // namespace

std::unique_ptr<LaunchClock> launch_clock(Device device) {
  if (device.is_cuda()) return std::make_unique<EventClock>(device);
  return std::make_unique<HostClock>();
}

}  // namespace brim
