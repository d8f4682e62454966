#include "brim/train/profile.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <tuple>

#include "brim/autograd/node.h"
#include "brim/autograd/trace_recorder.h"
#include "brim/core/call_list.h"
#include "brim/core/launch.h"

namespace brim {
namespace {

using Clock = std::chrono::steady_clock;
using memory::Phase;

memory::Site site_of(const LaunchEvent& event) {
  memory::Site site = memory::current_site();
  if (site.run == 0 || *site.op == '\0') site.op = event.kernel;
  return site;
}

bool has_half_results(const autograd::OpEvent& event) {
  return std::ranges::any_of(event.outputs, [](const Tensor& output) {
    return output.defined() && is_low_precision(output.dtype());
  });
}

}  // namespace

LaunchCost& LaunchCost::operator+=(const LaunchCost& other) {
  launches += other.launches;
  seconds += other.seconds;
  bytes_moved += other.bytes_moved;
  bytes_widened += other.bytes_widened;
  flops += other.flops;
  half_flops += other.half_flops;
  least_seconds += other.least_seconds;
  return *this;
}

class Profile::Scope::Observer final : public autograd::OpObserver, public LaunchObserver {
 public:
  explicit Observer(LaunchClock& clock) : clock_(clock) {
    clock_.take();  // of a scope that failed
    start_ = Clock::now();
  }

  void launched(const LaunchEvent& event) override {
    guarded([&] {
      check(!is_recording(), "a graph that is recorded runs nothing");
      moved_ = {.bytes_moved = autograd::bytes_moved(event),
                .bytes_widened = autograd::bytes_widened(event)};
      op_ = number_of(site_of(event));
      clock_.begin();
    });
  }

  void finished() override {
    guarded([&] {
      clock_.end();
      ops_of_launches_.push_back(op_);
      costs_[op_].cost +=
          {.launches = 1, .bytes_moved = moved_.bytes_moved, .bytes_widened = moved_.bytes_widened};
    });
  }

  void ran(const autograd::OpEvent& event) override {
    guarded([&] {
      const double flops =
          event.phase == autograd::Phase::backward
              ? autograd::backward_flops(*event.node)
              : event.op.flops(autograd::infos_of(event.inputs), autograd::infos_of(event.outputs));
      costs_[number_of(memory::current_site())].cost +=
          {.flops = flops, .half_flops = has_half_results(event) ? flops : 0};
    });
  }

  /// Was it seen as a whole?
  bool is_whole() const { return !failed_ && !ops_of_launches_.empty(); }

  /// Once.
  ProfiledUpdate take(int64_t step) {
    clock_.wait();
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    const std::vector<double> each = clock_.take();
    check(each.size() == ops_of_launches_.size(), "every launch was timed");
    for (size_t i = 0; i < each.size(); ++i) costs_[ops_of_launches_[i]].cost.seconds += each[i];
    std::erase_if(costs_, [](const OpCost& op) { return op.cost.launches == 0; });  // views
    return {step, seconds, std::move(costs_)};
  }

 private:
  // A commit must not fail for being looked at. What fails here is not kept.
  template <class Work>
  void guarded(const Work& work) noexcept {
    if (failed_) return;
    try {
      work();
    } catch (const std::exception&) {
      failed_ = true;
    }
  }

  size_t number_of(const memory::Site& site) {
    const Phase phase = site.phase == Phase::other ? Phase::update : site.phase;
    auto [found, is_new] = numbers_.try_emplace({site.path(), site.op, phase}, costs_.size());
    if (is_new) costs_.push_back({.module = site.path(), .op = site.op, .phase = phase});
    return found->second;
  }

  LaunchClock& clock_;
  Clock::time_point start_;
  bool failed_ = false;
  std::vector<OpCost> costs_;
  // Texts of sites live for ever.
  std::map<std::tuple<std::string_view, std::string_view, Phase>, size_t> numbers_;
  std::vector<size_t> ops_of_launches_;
  size_t op_ = 0;     // of the launch under way
  LaunchCost moved_;  // its bytes
  LaunchObserverScope watch_{*this};
};

Profile::Profile(const ProfileOptions& options)
    : options_(options), clock_(launch_clock(options.device)) {
  expect<ValueError>(options.warm_up >= 0, "profile", "expected a warm-up from 0 updates, got {}",
                     options.warm_up);
  expect<ValueError>(options.updates >= 1, "profile",
                     "expected to look at 1 update or more, got {}", options.updates);
}

void Profile::add(ProfiledUpdate update) {
  updates_.push_back(std::move(update));
  if (is_done()) clock_.reset();
}

Profile::Scope::Scope(Profile* profile, int64_t step) : profile_(profile), step_(step) {
  if (profile != nullptr && profile->is_due())
    observer_ = std::make_unique<Observer>(*profile->clock_);
}

Profile::Scope::~Scope() = default;

void Profile::Scope::keep() {
  if (profile_ == nullptr) return;
  ++profile_->seen_;
  if (observer_ != nullptr && observer_->is_whole()) profile_->add(observer_->take(step_));
  observer_.reset();
  profile_ = nullptr;
}

}  // namespace brim
