#include "brim/examples/support/run_watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "brim/io/atomic_file.h"

namespace brim::examples {

RunWatch::RunWatch(const TrainFlags& flags) : flags_(flags) {
  if (flags.watch_numerics) watch_.emplace(NumericsWatchOptions{.every = flags.watch_every});
}

std::string RunWatch::finish() const {
  if (!watch_) return "";
  const Dtype type = is_low_precision(flags_.precision()) ? flags_.precision() : Dtype::float16;
  const NumericsReport report = numerics_report(*watch_, type);
  if (!flags_.watch_page.empty())
    io::write_file(
        flags_.watch_page,
        numerics_page(report, *watch_,
                      {fmt::format("{}, {}x{}, batch {}, in {}", flags_.model, flags_.size,
                                   flags_.size, flags_.batch, to_string(flags_.precision()))}),
        "numerics");
  return fmt::format("numbers:\n  {}\n{}", fmt::join(summary_of(report, *watch_), "\n  "),
                     table_of(report));
}

std::string RunWatch::finish_after_error() const {
  try {
    return finish();
  } catch (const Error& second) {
    return second.what();
  }
}

}  // namespace brim::examples
