#include "brim/apps/support/prune_goal.h"

#include <fmt/ranges.h>

#include <array>
#include <charconv>

#include "brim/base/nearest.h"
#include "brim/apps/support/model_measure.h"
#include "brim/apps/support/train_plan.h"
#include "brim/apps/support/train_weights.h"
#include "brim/train/predicted_time.h"

namespace brim::apps {
namespace {

constexpr std::array<std::pair<std::string_view, GoalKind>, 6> kGoals{
    {{"flops", GoalKind::flops},
     {"bytes", GoalKind::bytes},
     {"infer-bytes", GoalKind::infer},
     {"time", GoalKind::time},
     {"parameters", GoalKind::parameters},
     {"ratio", GoalKind::ratio}}};

std::vector<std::string> goal_names() {
  std::vector<std::string> names;
  for (const auto& [name, goal] : kGoals) names.emplace_back(name);
  return names;
}

// Units that can go, of a model as it is.
double units_of(nn::Module& model, const Shape& input, const std::vector<std::string>& exclude) {
  double units = 0;
  for (const shrink::ChannelGroup& group :
       shrink::find_channel_groups(model, input, {exclude}).groups)
    units += static_cast<double>(group.units);
  return units;
}

}  // namespace

std::string goal_help() {
  return "flops=0.5; bytes, the peak of training; infer-bytes; time, predicted, of a training "
         "step; "
         "parameters; or ratio=0.3, the channels that go";
}

PruneGoal parse_goal(const std::string& text, const char* flag) {
  const size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  auto found = std::ranges::find(kGoals, name, &std::pair<std::string_view, GoalKind>::first);
  expect<ValueError>(found != kGoals.end(), "flags", "expected one of {} in {}, got '{}'{}",
                     fmt::join(goal_names(), ", "), flag, name, did_you_mean(name, goal_names()));
  PruneGoal goal{name, found->second, 0};
  const char* begin = text.data() + std::min(text.size(), equals + 1);
  const char* end = text.data() + text.size();
  auto [last, error] = std::from_chars(begin, end, goal.amount);
  const bool is_number = equals != std::string::npos && error == std::errc{} && last == end;
  expect<ValueError>(is_number && goal.amount > 0 && goal.amount <= 1, "flags",
                     "expected a number above 0 and up to 1 in {} {}=0.5, got '{}'", flag, name,
                     text);
  return goal;
}

shrink::Cost cost_of(const PruneGoal& goal, const TrainFlags& flags, const TrainData& data,
                     const std::vector<std::string>& exclude) {
  const Shape input{1, flags.size, flags.size, 3};
  // The run of a model that is on the meta device with fewer channels.
  auto run_of = [&flags, &data](nn::Module& model) {
    TrainFlags run = flags;
    run.sizes = nn::sizes_beside(model, *usual_model(flags, data));
    return run;
  };
  switch (goal.kind) {
    case GoalKind::bytes:
      return [=, &data](nn::Module& model) {
        return static_cast<double>(train_peak_bytes(run_of(model), data));
      };
    case GoalKind::infer:
      return [=, &data](nn::Module& model) {
        return static_cast<double>(infer_peak_bytes(run_of(model), data));
      };
    case GoalKind::time:
      return [=, &data, &flags](nn::Module& model) {
        return predicted_seconds(rehearsal_of(run_of(model), data, flags.batch));
      };
    case GoalKind::parameters:
      return shrink::parameters_of();
    case GoalKind::ratio:
      return [=](nn::Module& model) { return units_of(model, input, exclude); };
    case GoalKind::flops:
      break;
  }
  return shrink::flops_of(input);
}

}  // namespace brim::apps
