#include "brim/memory/report/recompute_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "brim/base/bytes.h"
#include "brim/memory/report/markup.h"

namespace brim::memory {
namespace {

constexpr double kWidth = 860, kHeight = 480;
constexpr double kLeft = 62, kRight = 842, kUpper = 76, kLower = 416;
constexpr double kMostTicks = 8;
// Of labels: what a letter takes at 13 px, bold, at most, and a line.
constexpr double kLetter = 8, kLine = 17;

struct Box {
  double left, upper, right, lower;
  bool meets(const Box& other) const {
    return left < other.right && other.left < right && upper < other.lower && other.upper < lower;
  }
};

/// A power of two, so that ticks are whole numbers of units.
double binary_step(double range) {
  double step = 1;
  while (range / step > kMostTicks) step *= 2;
  return step;
}

/// 1, 2 or 5 times a power of ten; of 0.001 or more.
double decimal_step(double range) {
  double step = 0.001;
  for (int i = 0; range / step > kMostTicks; ++i) step *= i % 3 == 1 ? 2.5 : 2;
  return step;
}

/// "12%", "0.5%".
std::string percent(double share) { return fmt::format("{:.4g}%", 100 * share); }

/// Exact, as ticks are few and even: "1.25 GiB".
std::string tick(double bytes) {
  size_t unit = 0;
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  for (; bytes >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  return fmt::format("{:.5g} {}", bytes, kUnits[unit]);
}

class Drawing {
 public:
  explicit Drawing(const RecomputePage& page) : page_(page) {
    double bytes = static_cast<double>(page.plans.front().bytes), time = 0.01;
    for (const auto* ways : {&page.plans, &page.beside})
      for (const DrawnWay& way : *ways) {
        bytes = std::max(bytes, static_cast<double>(way.bytes));
        time = std::max(time, way.extra_time);
      }
    if (const auto budget = static_cast<double>(page.budget); budget < 1.2 * bytes)
      bytes = std::max(bytes, budget);
    most_bytes_ = 1.04 * bytes;
    most_time_ = 1.12 * time;
  }

  std::string run() {
    byte_axis();
    share_axis();
    time_axis();
    line("bound", &DrawnWay::bound);
    line("front", &DrawnWay::extra_time);
    budget();
    for (const DrawnWay& way : page_.plans) point(way, false);
    for (const DrawnWay& way : page_.beside) point(way, true);
    // Names last: they make way for all points.
    for (const auto* ways : {&page_.plans, &page_.beside})
      for (const DrawnWay& way : *ways)
        if (!way.name.empty()) name(way);
    legend();
    return std::move(svg_);
  }

 private:
  double x(double bytes) const { return kLeft + bytes / most_bytes_ * (kRight - kLeft); }
  double y(double time) const { return kLower - time / most_time_ * (kLower - kUpper); }
  double x(const DrawnWay& way) const { return x(static_cast<double>(way.bytes)); }

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    svg_ += fmt::format(format, std::forward<Args>(args)...);
    svg_ += '\n';
  }
  void stroke(const char* kind, double x0, double y0, double x1, double y1) {
    add(R"(<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", kind, x0, y0, x1,
        y1);
  }
  void text(const char* kind, double at_x, double at_y, const std::string& words) {
    add(R"(<text class="{}" x="{:.1f}" y="{:.1f}">{}</text>)", kind, at_x, at_y, escaped(words));
  }

  void byte_axis() {
    const double step = binary_step(most_bytes_);
    for (double at = 0; at <= most_bytes_; at += step) {
      stroke("grid", x(at), kUpper, x(at), kLower);
      text("middle muted", x(at), kLower + 19, tick(at));
    }
    text("end muted", kRight, kLower + 42, "bytes held at the peak of training");
  }
  void share_axis() {
    const auto all = static_cast<double>(page_.plans.front().bytes);
    for (int tenths = 0; tenths <= 10; ++tenths) {
      const double at = x(all * tenths / 10);
      stroke("tick", at, kUpper - 5, at, kUpper);
      if (tenths % 2 == 0) text("middle muted", at, kUpper - 11, percent(tenths / 10.0));
    }
    stroke("tick", kLeft, kUpper, kRight, kUpper);
  }
  void time_axis() {
    const double step = decimal_step(most_time_);
    for (double at = 0; at <= most_time_; at += step) {
      stroke(at > 0 ? "grid" : "tick", kLeft, y(at), kRight, y(at));
      text("end muted", kLeft - 8, y(at) + 4, percent(at));
    }
    text("muted", kLeft, kLower + 42,
         "up: extra time of a step; top: share of what keeping everything holds");
  }

  void line(const char* kind, double DrawnWay::*time) {
    std::string points;
    for (const DrawnWay& way : page_.plans)
      points += fmt::format("{:.1f},{:.1f} ", x(way), y(way.*time));
    add(R"(<polyline class="{}" points="{}"/>)", kind, points);
  }

  void budget() {
    const auto bytes = static_cast<double>(page_.budget);
    if (page_.budget == 0 || bytes > most_bytes_) return;
    stroke("budget", x(bytes), kUpper, x(bytes), kLower);
    const std::string words = "budget " + format_bytes(page_.budget);
    const bool left = x(bytes) > (kLeft + kRight) / 2;
    text(left ? "end" : "start", x(bytes) + (left ? -6 : 6), kUpper + 14, words);
    const double width = kLetter * static_cast<double>(words.size());
    const double from = left ? x(bytes) - 6 - width : x(bytes) + 6;
    taken_.push_back({from, kUpper, from + width, kUpper + kLine});
    taken_.push_back({x(bytes) - 2, kUpper, x(bytes) + 2, kLower});
  }

  static std::string described(const DrawnWay& way) {
    std::string words = way.name.empty() ? "" : way.name + ": ";
    return words + fmt::format("{} at {:.1f}% more time, {} values made again",
                               format_bytes(way.bytes), 100 * way.extra_time, way.rebuilt);
  }
  /// A circle for a plan, a diamond for another way.
  void point(const DrawnWay& way, bool is_beside) {
    const double at_x = x(way), at_y = y(way.extra_time), r = way.name.empty() ? 3.5 : 5;
    const std::string title = escaped(described(way));
    if (is_beside)
      add(R"(<path class="way" d="M{:.2f} {:.2f}m0-6l6 6-6 6-6-6z"><title>{}</title></path>)", at_x,
          at_y, title);
    else
      add(R"(<circle class="plan" cx="{:.2f}" cy="{:.2f}" r="{}"><title>{}</title></circle>)", at_x,
          at_y, r, title);
    taken_.push_back({at_x - 6, at_y - 6, at_x + 6, at_y + 6});
  }

  /// Beside its point, at the first of some places where nothing is yet.
  void name(const DrawnWay& way) {
    const double width = kLetter * static_cast<double>(way.name.size());
    const double at_x = x(way), at_y = y(way.extra_time);
    struct Place {
      double x, y;  // of the left end and the base line
    };
    std::array<Place, 8> places{{{at_x + 10, at_y - 6},
                                 {at_x + 10, at_y + 14},
                                 {at_x + 10, at_y - 24},
                                 {at_x - width / 2, at_y - 14},
                                 {at_x - width - 10, at_y - 6},
                                 {at_x - width - 10, at_y + 14},
                                 {at_x - width / 2, at_y - 32},
                                 {at_x - width / 2, at_y - 50}}};
    for (Place& place : places) place.x = std::clamp(place.x, kLeft, kRight - width);
    auto box_of = [&](const Place& place) {
      return Box{place.x, place.y - kLine + 4, place.x + width, place.y + 4};
    };
    auto is_free = [&](const Place& place) {
      const Box box = box_of(place);
      return box.lower <= kLower &&
             std::ranges::none_of(taken_, [&](const Box& other) { return box.meets(other); });
    };
    const Place place = *std::ranges::find_if(places.begin(), places.end() - 1, is_free);
    taken_.push_back(box_of(place));
    text("name", place.x, place.y, way.name);
  }

  void legend() {
    constexpr double kMiddle = 22;
    auto words = [&](double at_x, const char* what) { text("start", at_x, kMiddle + 4, what); };
    stroke("front", kLeft, kMiddle, kLeft + 26, kMiddle);
    add(R"(<circle class="plan" cx="{}" cy="{}" r="3.5"/>)", kLeft + 13, kMiddle);
    words(kLeft + 34, "plans");
    stroke("bound", kLeft + 100, kMiddle, kLeft + 126, kMiddle);
    words(kLeft + 134, "no plan takes less");
    if (page_.beside.empty()) return;
    add(R"(<path class="way" d="M{} {}m0-6l6 6-6 6-6-6z"/>)", kLeft + 290, kMiddle);
    words(kLeft + 304, "other ways");
  }

  const RecomputePage& page_;
  double most_bytes_ = 0, most_time_ = 0;
  std::vector<Box> taken_;
  std::string svg_;
};

}  // namespace

std::string recompute_view_box() { return fmt::format("0 0 {} {}", kWidth, kHeight); }

std::string recompute_drawing(const RecomputePage& page) { return Drawing(page).run(); }

}  // namespace brim::memory
