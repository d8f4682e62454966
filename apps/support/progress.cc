#include "brim/apps/support/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "brim/base/bytes.h"
#include "brim/apps/support/output.h"
#include "brim/memory/account.h"

namespace brim::apps {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kRedraw = std::chrono::milliseconds(200);
constexpr auto kQuiet = std::chrono::seconds(30);  // the longest silence where lines are kept

std::string minutes(double seconds) {
  auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

/// Columns of the terminal on standard output; a usual number where it does not say.
size_t columns() {
  winsize size{};
  bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

double smooth(double before, double now) { return before == 0 ? now : 0.95 * before + 0.05 * now; }

}  // namespace

Progress::Progress(const Plan& plan)
    : plan_(plan), terminal_(isatty(STDOUT_FILENO) != 0), start_(Clock::now()), shown_(start_) {}

Progress::~Progress() {
  if (line_open_) std::cout << std::endl;
}

/// On a terminal the line is drawn again and again; elsewhere lines are few.
bool Progress::due(bool quarter) const {
  if (plan_.quiet) return false;
  auto since = Clock::now() - shown_;
  return terminal_ ? !line_open_ || since >= kRedraw : quarter || since >= kQuiet;
}

std::string Progress::time_left(int64_t step) const {
  double spent = std::chrono::duration<double>(Clock::now() - start_).count();
  return minutes(spent / static_cast<double>(step - before_) *
                 static_cast<double>(plan_.steps - step));
}

void Progress::step(const StepReport& report) {
  if (before_ < 0) before_ = report.step - 1;
  if (!report.skipped) {
    smooth_loss_ = smooth(smooth_loss_, report.loss);
    smooth_norm_ = smooth(smooth_norm_, report.gradient_norm.value_or(0));
  }
  smooth_rate_ = smooth(smooth_rate_, static_cast<double>(report.images) / report.seconds);
  int64_t in_epoch = (report.step - 1) % plan_.steps_per_epoch + 1;
  if (!due(in_epoch % std::max<int64_t>(plan_.steps_per_epoch / 4, 1) == 0)) return;
  auto stats = memory::account(plan_.device)->stats();
  std::string norm = plan_.gradient_norm ? fmt::format("  gradient norm {:.3g}", smooth_norm_) : "";
  show(fmt::format("epoch {}/{}  step {}/{}  loss {:.3f}{}{}  {:.0f} images/s  live {}  peak {}  "
                   "{} left",
                   report.epoch, plan_.epochs, in_epoch, plan_.steps_per_epoch, smooth_loss_, norm,
                   accuracy_, smooth_rate_, format_bytes(stats.live),
                   format_bytes(stats.peak_reserved), time_left(report.step)),
       false);
}

void Progress::evaluation(int64_t done, int64_t all) {
  if (due(false)) show(fmt::format("validation  {}/{} images", done, all), false);
}

void Progress::epoch(const EpochReport& report) {
  std::string line =
      fmt::format("epoch {}/{}  loss {:.3f}", report.epoch, plan_.epochs, report.train_loss);
  if (report.validation) {
    accuracy_ = fmt::format("  accuracy {:.1f}%", 100 * report.validation->accuracy);
    line += fmt::format("  validation loss {:.3f}  accuracy {:.2f}%", report.validation->loss,
                        100 * report.validation->accuracy);
  }
  show(line + fmt::format("  {:.1f} s", report.seconds), true);
}

void Progress::say(const std::string& line) { show(line, true); }

void Progress::show(const std::string& line, bool last) {
  if (plan_.quiet) return;
  if (terminal_) {
    // Wrapped lines cannot be drawn over.
    const std::string drawn = shown(last ? line : line.substr(0, columns() - 1));
    std::cout << "\r\x1b[K" << drawn << (last ? "\n" : "") << std::flush;
    line_open_ = !last;
  } else {
    std::cout << shown(line) << '\n';
  }
  check_output();
  shown_ = Clock::now();
}

}  // namespace brim::apps
