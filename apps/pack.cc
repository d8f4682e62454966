// Packs buffers whose lifetimes are in a CSV file: offsets as low as possible, or within a
// capacity. `pack --help` shows the flags.
#include "brim/memory/plan/pack.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <limits>
#include <span>
#include <string>

#include "brim/base/bytes.h"
#include "brim/base/error.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/events.h"
#include "brim/apps/support/flag_values.h"
#include "brim/apps/support/output.h"
#include "brim/apps/support/program.h"
#include "brim/io/atomic_file.h"
#include "brim/io/input_file.h"
#include "brim/memory/plan/packing_csv.h"

namespace {

using namespace brim;
using namespace brim::apps;
using Clock = std::chrono::steady_clock;

// Whether a capacity can be met is worth longer to whoever asks than a step's last percent is.
constexpr int64_t kNodesForCapacity = 20'000'000;

constexpr const char* kExamples =
    R"(A file has a line id,lower,upper,size and one for each buffer: it lives in [lower,upper).
Examples:
  pack in.csv out.csv                    as low as possible; out.csv has the offsets too
  pack --capacity 1MiB in.csv            does it fit? Exit code 0 if so, 2 if not
  pack --time-limit 10 --json - in.csv   the best in ten seconds, for another program
)";

struct PackFlags {
  std::string input, output, json, capacity;
  double time_limit = 0;
  uint64_t seed = 0;
  bool quiet = false;
};

void add_flags(App& app, PackFlags& f) {
  app.footer(kExamples);
  app.add_option("input", f.input, "CSV file of lifetimes")
      .type_name("IN.CSV")
      .check(file_name())
      .required();
  app.add_option("output", f.output, "CSV file to write them to with offsets")
      .type_name("OUT.CSV")
      .check(file_name());
  app.add_option("--capacity", f.capacity, "stop as soon as they fit into so much: 1048576, 1MiB")
      .type_name("SIZE")
      .check(byte_size(1));
  app.add_option("--time-limit", f.time_limit,
                 "seconds to search; with it results may differ from run to run (default: a fixed "
                 "amount of work)")
      .check(number({.most = 1e9, .above_least = true}));
  app.add_option("--seed", f.seed, "of the random choices").shows_default().check(seed_number());
  app.add_option("--json", f.json, "write results to this file, - for standard output")
      .type_name("FILE")
      .check(file_name());
  app.add_flag("--quiet", f.quiet, "print errors only");
}

memory::PackingRows read_rows(const std::string& path) {
  io::InputFile file(path, "input");
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return memory::parse_packing_csv(text, path);
}

void write_rows(const std::string& path, const memory::PackingRows& rows,
                const memory::Packing& packing) {
  io::write_file(path, memory::format_packing_csv(rows, packing.offsets), "output");
}

memory::PackOptions options_of(const PackFlags& f) {
  memory::PackOptions options{.seed = f.seed};
  if (!f.capacity.empty()) {
    options.capacity = parse_bytes(f.capacity);
    options.nodes = kNodesForCapacity;
  }
  if (f.time_limit > 0) {
    options.nodes = std::numeric_limits<int64_t>::max();
    options.stop = [end = Clock::now() + std::chrono::duration<double>(f.time_limit)] {
      return Clock::now() >= end;
    };
  }
  return options;
}

struct Packed {
  memory::Packing packing;
  double seconds = 0;
  std::string misfit;  // why it does not fit the capacity; "" where it does
};

Packed pack_rows(const memory::PackingRows& rows, memory::PackOptions options) {
  Packed result;
  const int64_t capacity = options.capacity;
  size_t largest =
      static_cast<size_t>(std::ranges::max_element(rows.lifetimes, {}, &memory::Lifetime::size) -
                          rows.lifetimes.begin());
  bool hopeless = capacity > 0 && rows.lifetimes[largest].size > capacity;
  if (hopeless) options.capacity = options.nodes = 0;  // any packing will do

  auto start = Clock::now();
  result.packing = memory::pack(rows.lifetimes, options);
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  result.packing.proved |= hopeless;
  if (hopeless)
    result.misfit = fmt::format("buffer '{}' alone has {} bytes", rows.ids[largest],
                                rows.lifetimes[largest].size);
  else if (capacity > 0 && result.packing.height > capacity)
    result.misfit =
        fmt::format("{}, the lowest packing found has {} bytes",
                    result.packing.proved ? "no packing does" : "perhaps some packing does",
                    result.packing.height);
  return result;
}

void write_event(Events& events, const Packed& packed) {
  const memory::Packing& packing = packed.packing;
  events.write({{"buffers", packing.offsets.size()},
                {"lower_bound", packing.lower_bound},
                {"height", packing.height},
                {"gap", packing.gap()},
                {"seconds", packed.seconds},
                {"proved", packing.proved}});
}

void tell(const std::string& input, const Packed& packed) {
  const memory::Packing& packing = packed.packing;
  std::cout << fmt::format(
      "{}: {} buffers in {} bytes ({}), {:.3f}% above the lower bound; {}; {:.3f} s\n",
      shown(input), packing.offsets.size(), packing.height, format_bytes(packing.height),
      100 * packing.gap(), packing.proved ? "no packing is lower" : "a lower one may exist",
      packed.seconds);
}

void pack_file(const PackFlags& f) {
  memory::PackOptions options = options_of(f);
  if (!f.output.empty()) io::check_writable(f.output, "output");
  memory::PackingRows rows = read_rows(f.input);
  Events events(f.json);
  Packed packed = pack_rows(rows, options);
  write_event(events, packed);
  events.open();
  if (!packed.misfit.empty())
    throw DoesNotFit{fmt::format("'{}' does not fit {}: {}", f.input, f.capacity, packed.misfit)};
  if (!f.output.empty()) write_rows(f.output, rows, packed.packing);
  if (!f.quiet && !events.owns_stdout()) tell(f.input, packed);
}

}  // namespace

int main(int argc, char** argv) {
  App app("Packs buffers with known lifetimes into as few bytes as possible.", "pack");
  PackFlags flags;
  add_flags(app, flags);
  return run_program(app, argc, argv, [&] { pack_file(flags); });
}
