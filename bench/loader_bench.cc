// Batches of a folder of JPEG files on demand, for compare.py beside peers/torch_loader.py; see
// server.h for the protocol. A step makes a normalised batch. Files are read by `--workers`
// threads, or by the one that normalises.
#include "brim/base/parallel.h"
#include "brim/bench/server.h"
#include "brim/bench/timing.h"
#include "brim/brim.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/program.h"

namespace {

using namespace brim;
using namespace brim::bench;

struct Options {
  std::string data;
  int64_t batch = 64;
  int workers = 0, warm_up = 2;
  bool evaluates = false;
};

void add_flags(apps::App& app, Options& options) {
  app.add_option("--data", options.data, "a folder of class folders").required();
  app.add_option("--batch", options.batch).shows_default();
  app.add_option("--workers", options.workers, "threads that read ahead").shows_default();
  app.add_option("--warmup", options.warm_up, "batches");
  app.add_flag("--evaluation", options.evaluates, "the centre of the shorter side at 256");
}

/// ImageNet's custom, at 224 pixels.
data::LoaderOptions loader_options(const Options& options) {
  using Kind = data::Augment::Kind;
  const data::Augment training{.kind = Kind::random_resized_crop, .flip = true};
  return {.batch = options.batch,
          .size = 224,
          .workers = options.workers,
          .shuffle = !options.evaluates,
          .drop_last = true,
          .augment = options.evaluates ? data::Augment{.resize = 256} : training};
}

/// One epoch after the other.
class Batches {
 public:
  explicit Batches(const Options& options)
      : loader_(std::make_shared<data::ImageFolder>(options.data), loader_options(options)) {
    loader_.start_epoch(epoch_);
  }

  double timed_batch() {
    return seconds_of([this] { prepare_input(data::to_device(next()).images, {}); });
  }

 private:
  data::Batch next() {
    std::optional<data::Batch> batch = loader_.next();
    if (batch) return std::move(*batch);
    loader_.start_epoch(++epoch_);
    return std::move(*loader_.next());
  }

  data::Loader loader_;
  int64_t epoch_ = 0;
};

void serve_batches(const Options& options) {
  set_num_threads(1);
  Batches batches(options);
  serve({.step = [&] { return batches.timed_batch(); }}, options.warm_up);
}

}  // namespace

int main(int argc, char** argv) {
  apps::App app("Times batches of JPEG files on demand, for compare.py.", "loader_bench");
  Options options;
  add_flags(app, options);
  return apps::run_program(app, argc, argv, [&] { serve_batches(options); });
}
