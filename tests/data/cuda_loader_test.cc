// Slots of a loader in pinned memory: they are charged to the byte, plain memory does where there
// is none, and a GPU that copies late finds every batch as it was, though its slot is filled again.
// On an emulated GPU, told to be late and to refuse.
#include <doctest/doctest.h>

#ifdef BRIM_EMULATED_GPU

#include "brim/data/device_batch.h"
#include "brim/memory/account.h"
#include "brim/memory/pinned_source.h"
#include "brim/tests/data/fake_dataset.h"
#include "brim/tests/support/cuda_emulator/troubles.h"

using namespace brim;
using namespace brim::data;
namespace emulator = brim::cuda::emulator;

namespace {

constexpr int64_t kCap = 1 << 20;

LoaderOptions options_on(std::shared_ptr<memory::Account> host, int workers = 2) {
  LoaderOptions options = options_of(4, workers);
  options.host = std::move(host);
  return options;
}

Copy copy_of(const DeviceBatch& batch, int64_t first) {
  return {first, batch.labels.size(0), batch.images.to_vector<uint8_t>(),
          batch.labels.to_vector<int64_t>()};
}

}  // namespace

TEST_CASE("slots are pinned and charged as input, until the last batch is gone") {
  const auto host = memory::pinned_account(Device::cuda(), kCap, "direct");
  std::optional<Batch> last;
  {
    Loader loader(std::make_shared<Fake>(20), options_on(host));
    CHECK(loader.why_plain() == "");
    const memory::AccountStats stats = host->stats();
    CHECK(stats.reserved == loader.host_bytes());
    CHECK(stats.by_category[static_cast<size_t>(memory::Category::input)] == stats.live);
    CHECK(emulator::pinned_bytes() == static_cast<size_t>(loader.host_bytes()));
    loader.start_epoch(0);
    last = loader.next();
  }
  CHECK(emulator::pinned_bytes() > 0);
  last.reset();
  CHECK(emulator::pinned_bytes() == 0);
  CHECK(host->stats().reserved == 0);
}

TEST_CASE("where no memory can be pinned batches are the same, from plain memory, and it is said") {
  const auto dataset = std::make_shared<Fake>(20);
  Loader plain(dataset, options_of(4, 2));
  CHECK(plain.why_plain() == "");
  const auto expected = epoch_of(plain, 1);
  auto check = [&](const std::shared_ptr<memory::Account>& host, const std::string& why) {
    Loader loader(dataset, options_on(host));
    CAPTURE(loader.why_plain());
    CHECK(loader.why_plain().find(why) != std::string::npos);
    CHECK(host->stats().live == 0);
    CHECK(emulator::pinned_bytes() == 0);
    CHECK(epoch_of(loader, 1) == expected);
  };
  check(memory::pinned_account(Device::cuda(), 1024, "direct"), "free 1 KiB");
  const auto host = memory::pinned_account(Device::cuda(), kCap, "direct");
  host->fail_nth(1);
  check(host, "injected fault");
  for (int error : {2, 801}) {  // want of memory, and what the driver may have besides
    emulator::fail_pinned(1, error);
    check(host, error == 2 ? "asked cpu for" : "cudaHostAlloc failed");
  }
  Loader again(dataset, options_on(host));
  CHECK(again.why_plain() == "");
}

TEST_CASE("a GPU that copies late has every batch as it was, though each was released at once") {
  const auto dataset = std::make_shared<Fake>(40);
  Loader plain(dataset, options_of(4, 0));
  const auto expected = epoch_of(plain, 0);
  for (int workers : {0, 2}) {
    LoaderOptions options =
        options_on(memory::pinned_account(Device::cuda(), kCap, "direct"), workers);
    options.slots = 2;
    Loader loader(dataset, options);
    std::vector<DeviceBatch> batches;
    emulator::LateScope late;
    loader.start_epoch(0);
    while (std::optional<Batch> batch = loader.next()) {
      batches.push_back(to_device(*batch, Device::cuda()));
      CHECK(emulator::work_left() > 0);  // the host did not wait
    }
    REQUIRE(batches.size() == expected.size());
    for (size_t i = 0; i < batches.size(); ++i)
      CHECK(copy_of(batches[i], expected[i].first) == expected[i]);
  }
}

TEST_CASE("without a slot to hold, a copy is complete when it returns") {
  const auto host = memory::pinned_account(Device::cuda(), kCap, "direct");
  Loader loader(std::make_shared<Fake>(8), options_on(host));
  emulator::LateScope late;
  loader.start_epoch(0);
  const std::optional<Batch> batch = loader.next();
  const DeviceBatch there =
      to_device(batch->pixels(), batch->labels(), batch->size(), Device::cuda());
  CHECK(emulator::work_left() == 0);
  CHECK(there.labels.size(0) == batch->count());
}

#else

TEST_CASE("slots of a loader in pinned memory") {
  MESSAGE("skipped: pinned slots (no emulated GPU)");
}

#endif
