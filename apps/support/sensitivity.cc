#include "brim/apps/support/sensitivity.h"

#include <algorithm>

#include "brim/apps/support/drawn_images.h"

namespace brim::apps {
namespace {

constexpr double kWidth = 180, kHeight = 72;  // of a curve, in pixels

std::string escaped(const std::string& text) {
  std::string safe;
  for (char c : text) safe += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  return safe;
}

// The most sensitive first: by the accuracy that the largest share costs.
std::vector<GroupSensitivity> sorted(const Sensitivity& s) {
  std::vector<GroupSensitivity> groups = s.groups;
  std::ranges::stable_sort(groups, {},
                           [](const GroupSensitivity& g) { return g.accuracies.back(); });
  return groups;
}

// From white, nothing is lost, to red, all is.
std::string shade(double accuracy, double whole) {
  const double lost = std::clamp((whole - accuracy) / std::max(whole, 1e-9), 0.0, 1.0);
  const int rest = static_cast<int>(255 - 150 * lost);
  return fmt::format("rgb(255,{0},{0})", rest);
}

std::string curve(const Sensitivity& s, const GroupSensitivity& group) {
  const double top = std::max(s.accuracy, 1e-9);
  auto point = [&](double share, double accuracy) {
    return fmt::format("{:.1f},{:.1f} ", 2 + share * (kWidth - 4),
                       2 + (1 - std::min(accuracy / top, 1.05) / 1.05) * (kHeight - 4));
  };
  std::string points = point(0, s.accuracy);
  for (size_t i = 0; i < s.shares.size(); ++i) points += point(s.shares[i], group.accuracies[i]);
  return fmt::format(
      "<svg viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" role=\"img\" "
      "aria-label=\"accuracy "
      "against the share that is gone\"><rect width=\"{0}\" height=\"{1}\" fill=\"#fafafa\"/>"
      "<polyline points=\"{2}\" fill=\"none\" stroke=\"#4c78a8\" stroke-width=\"2\"/></svg>",
      kWidth, kHeight, points);
}

}  // namespace

Sensitivity measure_sensitivity(const PruneFlags& flags, TrainData& data,
                                const std::function<std::unique_ptr<nn::Module>()>& make_model,
                                const std::function<void(const std::string&)>& say) {
  expect<ValueError>(data.validation != nullptr, "flags",
                     "--sensitivity needs images to validate, and {} has none", flags.train.data);
  const Shape input{1, flags.train.size, flags.train.size, 3};
  DrawnImages images(data, flags.sensitivity_images);
  const std::unique_ptr<nn::Module> model = make_model();
  shrink::PruneOptions options = flags.options();
  options.multiple = 1;  // shares as they are said
  options.least = 0;
  const shrink::Pruner pruner(*model, input, options);
  Sensitivity found{.accuracy = images.accuracy(*model),
                    .images = images.count(),
                    .shares = {0.25, 0.5, 0.75, 0.9}};
  for (size_t g = 0; g < pruner.groups().groups.size(); ++g) {
    const shrink::ChannelGroup& group = pruner.groups().groups[g];
    GroupSensitivity of{group.name, group.units * group.channels_per_unit(), {}};
    for (double share : found.shares) {
      const std::unique_ptr<nn::Module> pruned = make_model();
      shrink::remove_channels(*pruned, pruner.group_ratio(g, share, shrink::parameters_of()).cut);
      of.accuracies.push_back(images.accuracy(*pruned));
    }
    say(fmt::format("{} of {} groups: {}", g + 1, pruner.groups().groups.size(), group.name));
    found.groups.push_back(std::move(of));
  }
  return found;
}

std::string to_table(const Sensitivity& s) {
  size_t width = 5;
  for (const GroupSensitivity& group : s.groups) width = std::max(width, group.name.size());
  std::string text = fmt::format(
      "accuracy {:.2f}% on {} images; without a share of one group alone:\n"
      "  {:<{}}  {:>8}",
      100 * s.accuracy, s.images, "group", width, "channels");
  for (double share : s.shares) text += fmt::format("  {:>6.0f}%", 100 * share);
  text += '\n';
  for (const GroupSensitivity& group : sorted(s)) {
    text += fmt::format("  {:<{}}  {:>8}", group.name, width, group.channels);
    for (double accuracy : group.accuracies) text += fmt::format("  {:>7.2f}", 100 * accuracy);
    text += '\n';
  }
  return text;
}

std::string sensitivity_page(const Sensitivity& s, const std::string& title) {
  std::string page = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{0}</title>\n"
      "<style>\nbody {{ font: 15px sans-serif; margin: 2em; color: #222; }}\n"
      "table {{ border-collapse: collapse; }}\n"
      "th, td {{ padding: 4px 12px; border-bottom: 1px solid #ddd; text-align: right; }}\n"
      "th:first-child, td:first-child {{ text-align: left; }}\n</style>\n</head>\n<body>\n"
      "<h1>{0}</h1>\n<p>Top-1 accuracy in percent, {1:.2f} of the whole model, on {2} "
      "images, "
      "when a share of the channels of one group is removed and all else stays; nothing is trained "
      "afterwards. Groups are called after the first layer that makes their channels; the most "
      "sensitive come first.</p>\n<table>\n<tr><th>group</th><th>channels</th>",
      escaped(title), 100 * s.accuracy, s.images);
  for (double share : s.shares) page += fmt::format("<th>{:.0f}% gone</th>", 100 * share);
  page += "<th>0 to 90%</th></tr>\n";
  for (const GroupSensitivity& group : sorted(s)) {
    page += fmt::format("<tr><td>{}</td><td>{}</td>", escaped(group.name), group.channels);
    for (double accuracy : group.accuracies)
      page += fmt::format("<td style=\"background:{}\">{:.2f}</td>", shade(accuracy, s.accuracy),
                          100 * accuracy);
    page += fmt::format("<td>{}</td></tr>\n", curve(s, group));
  }
  return page + "</table>\n</body>\n</html>\n";
}

}  // namespace brim::apps
