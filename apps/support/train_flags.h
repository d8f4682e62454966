// The flags of `train`, and what they mean for model, optimizer and trainer. Call `add_flags`,
// parse, then `take_device` (planned_device.h) and `check_flags`: until then `device`, `budget` and
// defaults that depend on other flags are not set. A program of your own fills in
// `nn::ModelOptions`, `optim::SgdOptions` and `TrainerOptions` itself (nn/models/registry.h,
// optim/sgd.h, train/trainer.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "brim/brim.h"
#include "brim/apps/support/app.h"
#include "brim/apps/support/host_share.h"
#include "brim/apps/support/train_augment.h"
#include "brim/apps/support/train_optimizer.h"
#include "brim/train/cards.h"

namespace brim::apps {

struct TrainData;

inline constexpr const char *kAutoBatch = "auto", *kFastestBatch = "fastest";

/// `--prune-to` and what goes with it.
struct TrainPruneFlags {
  std::string to;                           ///< "flops=0.5"; "" for no pruning
  int64_t start = -1, end = -1, every = 0;  ///< updates; negative and 0: by the length of the run
  std::string criterion = "l2";
  int64_t multiple = 8;
  std::vector<std::string> exclude;
};

/// A GPU that is planned for.
struct PlannedGpu {
  int64_t bytes = 0;    ///< that it has
  int64_t context = 0;  ///< of those, what its runtime holds before there is a tensor
  bool context_is_known = false;
  std::string use;  ///< who holds its memory as the program starts; "" where it is not here
  const Card* card = nullptr;  ///< where it is none that is here
};

struct TrainFlags {
  std::string data = "shapes", model = "resnet20", json;
  int size = 0;         ///< 0: the data's own, else the model's
  int64_t classes = 0;  ///< 0: as many as the data has
  std::string
      batch_text;     ///< a number, "auto", "fastest", or "" for 64 (small pictures of files) or 32
  int64_t batch = 0;  ///< 0 until `choose_batch`, where the text is "auto"
  int64_t least_batch = 0;      ///< that may be found, by `choose_batch`; 0 where one was given
  int64_t max_batch = 0;        ///< that may be found; 0: as many as there are images
  int64_t batch_multiple = 1;   ///< of what is found
  std::string margin_text;      ///< "5" or "5%"
  double margin = 0;            ///< percent of the limit that are left free
  int64_t effective_batch = 0;  ///< images of an update; 0: of one batch
  bool fused_update = false;
  bool replay = false;
  bool tf32 = false, cudnn_benchmark = false;  ///< see algorithm_flags.h
  bool in_place = true;
  std::string
      recompute_text;    ///< "off", "free", "auto", "segments=N", or "" for what the budget asks
  int64_t segments = 0;  ///< of the text; 0 for none
  RecomputeOptions recompute = {};           ///< what the text comes to; see `choose_recompute`
  std::string offload_text;                  ///< "off", "auto", or "" for what the device is
  int64_t dropped = 0, offloaded = 0;        ///< saved tensors, by what was planned
  int64_t least_planned = 0;                 ///< bytes, where nothing that was planned fits; else 0
  std::string op_times_text = "calibrated";  ///< or "nominal", "measured"
  OpTimes op_times = {};                     ///< what the text comes to; see `set_op_times`
  std::string speed_text;                    ///< where the speed in it comes from, for people
  int64_t micro_batches = 0;  ///< parts of an update; 0: as many as the batches make it
  int64_t epochs = 0, steps = 0;
  std::string device_name = "cpu";
  Device device = {};
  std::optional<PlannedGpu> gpu;  ///< for `plan`
  /// On a CPU, what the process has there; none: a machine that is not asked.
  std::optional<HostShare> host;
  int threads = 0, workers = 2;
  std::string cache_images_text;
  std::optional<int64_t> cache_images;  ///< bytes of decoded images of a split; none: unasked
  uint64_t seed = 0;
  bool quiet = false, skip_bad_images = false, check_images = false;
  std::optional<bool> exif;  ///< whether pictures are turned as it says; none: they are
  OptimizerFlags optimizer;
  std::string schedule = "onecycle";
  double label_smoothing = 0;
  int64_t warmup = 0;
  AugmentFlags augment = {};
  std::string init, save, save_best;  ///< files of weights; "" for none
  /// Of a pruned `init`, and those of the model now, where a run goes on that has pruned since.
  nn::ModelSizes init_sizes, sizes;
  TrainPruneFlags prune;
  double scale_penalty = 0;
  int64_t early_stop = 0;  ///< epochs without a better accuracy; 0 for never
  std::string checkpoint;  ///< folder; "" for none
  int64_t checkpoint_every = 0, keep = 3;
  bool resume = false;
  bool new_head = false;
  std::string precision_text = "f32", loss_scale = "dynamic";
  std::string gradients_text = "f32", parameters_text = "f32";  ///< or "bf16"
  std::string budget_text, planner = "arena";
  std::string save_plan, plan, trace, profile;  ///< files; "" for none
  bool watch_numerics = false;
  std::string watch_page;  ///< a file for what it saw; "" for none
  int64_t watch_every = 20;
  int64_t budget = 0;  ///< bytes; 0 for none

  /// Whether what is planned may drop saved tensors. A batch that is found is the largest that
  /// costs no time, unless `auto` asks for more.
  bool may_drop() const {
    return recompute_text == "auto" || (recompute_text.empty() && budget > 0 && !finds_batch());
  }
  /// Whether recomputation and offload are planned where the run does not fit otherwise.
  bool plans_recompute() const { return may_drop() || offload_text == "auto"; }
  /// Whether what is planned may go to the host. On the CPU that is the same memory, and updates
  /// that copy there cannot be recorded, so only who asks for it gets it.
  bool offloads() const {
    return offload_text == "auto" ||
           (offload_text.empty() && budget > 0 && device.is_cuda() && !replay);
  }
  bool finds_batch() const { return batch_text == kAutoBatch || batch_text == kFastestBatch; }
  /// What forward computes in; float32 until `choose_precision`, where the text is "auto".
  Dtype precision() const;
  /// Images of an update; 0 until there is a batch.
  int64_t update_images() const { return effective_batch > 0 ? effective_batch : batch; }
  /// The budget, or what the device has for tensors. It has no more for a larger budget.
  int64_t all_bytes() const {
    if (gpu) return budget > 0 ? std::min(budget, gpu->bytes) : gpu->bytes;
    if (!host) return budget > 0 ? budget : memory::host_memory();
    const int64_t share = host->for_tensors(update_images(), batch);
    return budget > 0 ? std::min(budget, share) : share;
  }
  /// Device bytes that tensors may take: those less the margin, and less a GPU's context.
  int64_t limit() const {
    const int64_t all = all_bytes();
    return all - static_cast<int64_t>(margin / 100 * static_cast<double>(all)) -
           (gpu ? gpu->context : 0);
  }
};

/// Declares the flags that the bytes of a run follow from; `flags` must outlive the parsing.
void add_model_flags(App& app, TrainFlags& flags);
/// Declares these and all others.
void add_flags(App& app, TrainFlags& flags);

/// Fills in defaults that depend on other flags. Throws `ValueError` naming a bad value.
void check_flags(TrainFlags& flags);

nn::ModelOptions model_options(const TrainFlags& flags, const TrainData& data, Device device);
/// Without averages: they are of one model.
TrainerOptions trainer_options(const TrainFlags& flags, const TrainData& data);

}  // namespace brim::apps
