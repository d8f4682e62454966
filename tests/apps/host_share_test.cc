// What a training on the CPU leaves to the process beside its tensors, of memory that is bounded.
#include "brim/apps/support/host_share.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "brim/base/parallel.h"
#include "brim/apps/support/train_flags.h"
#include "brim/memory/host_memory.h"
#include "brim/tests/apps/train_program.h"

using namespace brim;
using namespace brim::apps;
using namespace brim::testing;

namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

TrainFlags flags_on(const std::string& data) {
  TrainFlags flags;
  flags.data = data;
  flags.size = 224;
  return flags;
}

memory::MemoryBound group(int64_t limit, int64_t available) {
  return {.name = "the control group /a", .limit = limit, .available = available};
}

}  // namespace

TEST_CASE("the bound that leaves least counts, and is named") {
  const memory::MemoryBound machine{"the machine", 4096 * kMiB, 700 * kMiB};
  const HostShare few =
      host_share(flags_on("synthetic"), {machine, group(1024 * kMiB, 900 * kMiB)});
  CHECK(few.bound.name == "the machine");
  const HostShare share =
      host_share(flags_on("synthetic"), {machine, group(1024 * kMiB, 500 * kMiB)});
  CHECK(share.bound.name == "the control group /a");
  CHECK(share.for_tensors(0, 0) == 500 * kMiB - share.process - share.margin);
  CHECK(share.process >= 48 * kMiB);
  CHECK(share.margin == 1024 * kMiB / 100 * 3);
  CHECK(to_string(share).find("500 MiB of the 1 GiB of the control group /a") != std::string::npos);
  // Less than the process takes: nothing is left, which is no negative limit.
  CHECK(host_share(flags_on("synthetic"), {group(60 * kMiB, 10 * kMiB)}).for_tensors(8, 8) == 1);
}

TEST_CASE("images that wait, workers, decoded and kept images are the process's") {
  const std::vector<memory::MemoryBound> bounds{group(4096 * kMiB, 4000 * kMiB)};
  const HostShare synthetic = host_share(flags_on("synthetic"), bounds);
  const HostShare drawn = host_share(flags_on("shapes"), bounds);
  TrainFlags files = flags_on("photos");
  files.cache_images = 100 * kMiB;
  const HostShare photos = host_share(files, bounds);
  CHECK(synthetic.process < drawn.process);
  CHECK(photos.process >= drawn.process + 200 * kMiB);
  const int64_t image = 224 * 224 * 3 + 8;
  CHECK(synthetic.for_tensors(0, 0) - synthetic.for_tensors(64, 16) == 80 * image);
  CHECK(photos.for_tensors(0, 0) - photos.for_tensors(64, 16) == 4 * 80 * image);
}

TEST_CASE("a limit of addresses has room for stacks and heaps of threads that there will be") {
  memory::MemoryBound bound = group(4096 * kMiB, 4000 * kMiB);
  const int64_t used = host_share(flags_on("shapes"), {bound}).process;
  bound.of_addresses = true;
  const int64_t threads = num_threads() - 1 + 4;
  CHECK(host_share(flags_on("shapes"), {bound}).process ==
        used + threads * memory::thread_addresses());
}

TEST_CASE("a training has no more than its share, whatever the budget") {
  TrainFlags flags = flags_on("synthetic");
  flags.batch = 8;
  flags.host = host_share(flags, {group(1024 * kMiB, 900 * kMiB)});
  const int64_t share = flags.host->for_tensors(8, 8);
  CHECK(flags.limit() == share);
  flags.budget = 1000 * kMiB;
  CHECK(flags.limit() == share);
  flags.budget = 100 * kMiB;
  CHECK(flags.limit() == 100 * kMiB);
}

TEST_CASE("images are kept unasked in a part of what is available") {
  CHECK(unasked_cache({group(1024 * kMiB, 800 * kMiB)}) == 50 * kMiB);
  CHECK(unasked_cache({group(65536 * kMiB, 60000 * kMiB)}) == 256 * kMiB);
}

TEST_CASE("a budget that the machine or a limit of the process has not is refused with both") {
  const std::string more = std::to_string(2 * memory::host_memory());
  check_error(kSynthetic + kQuick + " --budget " + more, "--budget");
  check_error(kSynthetic + kQuick + " --budget " + more, "(" + more + " bytes) is more than the ");
  const Finished run =
      run_command("ulimit -v 4000000; " + kTrain + kSynthetic + kQuick + " --budget 5000000000");
  CHECK(run.code == 1);
  CHECK(run.err.find("(5000000000 bytes) is more than the 3.8 GiB (4096000000 bytes) that "
                     "ulimit -v may hold") != std::string::npos);
  // A plan may be for another machine.
  CHECK(run_command(kPlan + "--quiet" + kSynthetic + " --batch 4 --budget " + more).code == 0);
}

TEST_CASE("under a limit of addresses the batch that is found trains, and keeps to it") {
  for (const char* kib : {"400000", "800000"}) {
    CAPTURE(kib);
    const Finished run =
        run_command(fmt::format("ulimit -v {}; {} --json - --data synthetic --model mobilenet_v2 "
                                "--size 64 --classes 10 --batch auto --max-batch 256 --steps 2 "
                                "--threads 2",
                                kib, kTrain));
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    const std::vector<json> events = events_of(run.out);
    CHECK(events.back()["oom_events"] == 0);
    CHECK(events.back()["peak_bytes"] == events.front()["predicted_peak_bytes"]);
    CHECK(events.front()["process_bytes"] > 48 * kMiB);
  }
}
