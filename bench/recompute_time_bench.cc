// What recomputation costs a training step, measured: everything kept against what free
// recomputation, segments, dynamic eviction and plans for shares of its memory hold, in turns, one
// step of each a round. Beside it what was predicted, the bound of the planner, and what others
// published. Shares are of what "off" holds, or with --unfused of what is held where norms run
// apart from their activations: the saved tensors of other frameworks.
//
//   recompute_time_bench --model resnet50 --batch 64 --shares 40,33
//   recompute_time_bench --model resnet50 --shares 45 --recompute dynamic=45 --rounds 0
#include "brim/bench/case_options.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/flag_values.h"

namespace {

using namespace brim;
using namespace brim::bench;

struct Options {
  CaseOptions measured;
  std::vector<std::string> recompute{"free"};
  std::vector<int> shares;
  bool least = false;
  bool unfused = false;
  double peer_mib = 0;
};

struct Published {
  std::string model;
  int share;       ///< of keep-everything's memory, in percent
  double percent;  ///< more time
};

// MONeT: Shah, Wu, Mohan, Chidambaram and Kraehenbuehl, "Memory optimization for deep networks",
// ICLR 2021; on a GPU.
const Published kMonet[] = {{"resnet50", 40, 9.3},
                            {"resnet50", 33, 12.0},
                            {"mobilenet_v2", 35, 8.7},
                            {"vgg16", 39, 9.1},
                            {"unet", 35, 11.5}};

std::string published(const std::string& model, const std::string& name) {
  for (const Published& known : kMonet)
    if (known.model == model && fmt::format("{}%", known.share) == name)
      return fmt::format("MONeT {:.3f}", 1 + known.percent / 100);
  return "";
}

struct PeerPeak {
  std::string model;
  int64_t batch;
  double mib;
};

// Tensors of a training step of PyTorch, eager and in float32, at 224 pixels with 1000 classes:
// peers/torch_peak.py.
const PeerPeak kTorch[] = {{"resnet50", 16, 1549}, {"mobilenet_v2", 32, 2434}};

/// 0 where it is not known.
double peer_mib(const Options& options) {
  const TrainingShape& shape = options.measured.shape;
  if (options.peer_mib > 0) return options.peer_mib;
  for (const PeerPeak& peak : kTorch)
    if (peak.model == shape.model && peak.batch == shape.batch && shape.height == 224 &&
        shape.width == 224 && shape.outputs() == 1000)
      return peak.mib;
  return 0;
}

/// Without a plan, in a share of the live bytes of keeping everything.
Variant evicting(const std::string& name, const Variant& off, int64_t percent) {
  const int64_t budget = off.plan.predicted.peak_live / 100 * percent;
  try {
    return make_variant(name, off.shape, dynamic_eviction(budget));
  } catch (const memory::OutOfMemory&) {
    return {.name = name, .shape = off.shape, .fits = false};
  }
}

Variant named(const Variant& off, const std::string& name) {
  if (name == "free") return make_variant(name, off.shape, free_recomputation());
  const size_t split = name.find('=');
  const std::string way = name.substr(0, split);
  const std::string text = split == name.npos ? "" : name.substr(split + 1);
  expect<ValueError>((way == "segments" || way == "dynamic") &&
                         apps::is_whole_number(text, 1, apps::kMostCount),
                     "recompute", "expected off, free, segments=N or dynamic=PERCENT, got {}",
                     name);
  const int64_t number = std::stoll(text);
  if (way == "dynamic") return evicting(name, off, number);
  return in_segments(off.shape, number, recorded_calls(off.shape));
}

/// What shares are of: the number of "unfused", or of "off".
size_t whole_of(const std::vector<Variant>& variants) {
  return variants.size() > 1 && !variants[1].shape.fused ? 1 : 0;
}

/// "off" first, then "unfused" if it is asked for. What does not fit is said, and left out.
std::vector<Variant> variants_of(const Options& options) {
  const TrainingShape& shape = options.measured.shape;
  std::vector<Variant> variants{keep_everything(shape)};
  if (options.unfused) variants.push_back(keep_everything_unfused(shape));
  const int64_t most = variants[whole_of(variants)].peak();
  for (const std::string& name : options.recompute) {
    if (name == variants[0].name) continue;
    Variant variant = named(variants[0], name);
    if (variant.fits)
      variants.push_back(std::move(variant));
    else
      fmt::print("{} of {} runs out of memory\n", name, shape.name());
  }
  auto add = [&](const std::string& name, int64_t limit) {
    Variant variant = within(name, shape, limit);
    if (variant.fits) {
      variants.push_back(std::move(variant));
      return;
    }
    fmt::print("{} of {} does not fit: {:.1f} MiB or {:.1f}% is the least that was found\n", name,
               shape.name(), in_mib(variant.peak()),
               100 * static_cast<double>(variant.peak()) / static_cast<double>(most));
  };
  for (int share : options.shares) add(fmt::format("{}%", share), most / 100 * share);
  // The plan of least bytes may take longer than another one that fits them.
  if (options.least) add("least", within("least", shape, 1).peak());
  return variants;
}

void print_row(const Variant& variant, const Variant& off, int64_t most, const Turns& turns) {
  auto known = [](const auto& value, const char* format) {
    return value ? fmt::format(fmt::runtime(format), *value) : "-";
  };
  const std::string others = published(off.shape.model, variant.name);
  fmt::print("{:<12}{:>10.1f}{:>7.1f}%{:>9}{:>7}{:>9.1f}{:>11.3f}{:>8}{:>9}  {}{}{}\n",
             variant.name, in_mib(variant.peak()),
             100 * static_cast<double>(variant.peak()) / static_cast<double>(most),
             known(variant.dropped, "{}"), variant.again, variant.solve_seconds,
             variant.seconds / off.seconds, known(variant.bound, "{:.3f}"),
             turns.seconds.empty() ? "-" : fmt::format("{:.3f}", median(turns.seconds)),
             text_of(turns), others.empty() ? "" : "; ", others);
}

void print_beside_peer(const std::vector<Variant>& variants, double peer) {
  fmt::print("of PyTorch's {:.0f} MiB:", peer);
  for (const Variant& variant : variants)
    fmt::print(" {} {:.3f}", variant.name, in_mib(variant.peak()) / peer);
  fmt::print("\n");
}

void report_beside_unfused(const std::vector<Variant>& variants, const std::vector<Turns>& turns,
                           Json& line) {
  const size_t unfused = whole_of(variants);
  fmt::print("seconds of a step beside {}:", variants[unfused].name);
  for (size_t i = unfused + 1; i < variants.size(); ++i) {
    const Spread ratio = turns[i].ratio_to(turns[unfused]);
    line["variants"][i]["ratio_to_unfused"] = json_of(ratio);
    fmt::print(" {} {}", variants[i].name, text_of(ratio));
  }
  fmt::print("\n");
}

void report(const Options& options, const std::vector<Variant>& variants,
            const std::vector<Turns>& turns) {
  const size_t whole = whole_of(variants);
  Json line = report_rows(
      options.measured, "",
      fmt::format("{:<12}{:>10}{:>8}{:>9}{:>7}{:>9}{:>11}{:>8}{:>9}  {}", "", "peak MiB", "share",
                  "dropped", "again", "solve s", "predicted", "bound", "step s", "of off"),
      variants, turns,
      [most = variants[whole].peak()](const Variant& variant, const Variant& off,
                                      const Turns& own) { print_row(variant, off, most, own); });
  if (whole > 0 && options.measured.turns.rounds > 0) report_beside_unfused(variants, turns, line);
  if (options.measured.turns.rounds > 0) fmt::print("all held what was predicted, to the byte\n");
  if (const double peer = peer_mib(options); peer > 0) {
    line["torch_peak_mib"] = peer;
    print_beside_peer(variants, peer);
  }
  keep(options.measured, line);
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  apps::App app("Recomputation against keeping everything, in turns.", "recompute_time_bench");
  add_case_options(app, options.measured);
  app.add_option("--recompute", options.recompute,
                 "beside off, which is always there: free, segments=N, dynamic=PERCENT of its "
                 "live bytes, or off for none")
      .may_repeat(',')
      .shows_default();
  app.add_option("--shares", options.shares, "of keep-everything's peak to plan for, in percent")
      .may_repeat(',')
      .check(apps::whole_number(1, 99));
  app.add_flag("--least", options.least, "also the least that a plan reaches");
  app.add_flag("--unfused", options.unfused,
               "also with activations behind norms as calls of their own; shares are of that");
  app.add_option("--peer-peak", options.peer_mib, "MiB that peers/torch_peak.py found");
  return run_case(app, argc, argv, options, variants_of, report);
}
