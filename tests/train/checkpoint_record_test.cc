// Proves that the metadata of a checkpoint is read strictly: whatever is missing, unknown or not
// quite a number is a FileError with the file's name, and what is written comes back.
#include "brim/train/checkpoint_record.h"

#include <doctest/doctest.h>

#include "brim/base/error.h"
#include "brim/tests/support/errors.h"

using namespace brim;
using testing::contains;
using testing::error_text;

namespace {

CheckpointRecord record() {
  return {.identity = {{"", "no name"}, {"model", "resnet18"}},
          .notes = {{"model", "another one"}, {"plan", "{}"}},
          .progress = {.epoch = 1, .batch = 2, .loss_sum = 0.1, .images = 3, .best = 0.5},
          .updates = 4,
          .optimizer_steps = 5,
          .ema_updates = 6,
          .loss_scale = 0.5,
          .finite_in_a_row = 7,
          .skipped_updates = 8,
          .checksum = UINT64_MAX,
          .plan = "1 2 3 {}"};
}

std::string refused(const io::Metadata& metadata) {
  std::string text = error_text<FileError>([&] { record_of(metadata, "here"); });
  CHECK(text.starts_with("checkpoints: 'here' is not a whole checkpoint: "));
  return text;
}

}  // namespace

TEST_CASE("a record comes back") {
  CHECK(record_of(to_metadata(record()), "here") == record());
  CheckpointRecord less = record();
  less.ema_updates.reset();
  less.loss_scale.reset();
  less.finite_in_a_row.reset();
  less.skipped_updates.reset();
  less.progress.best.reset();
  less.identity.clear();
  less.plan.clear();
  CHECK(record_of(to_metadata(less), "here") == less);
  CHECK(checkpoint_version(to_metadata(less), "here") == kCheckpointVersion);
}

TEST_CASE("an entry that is missing or unknown is named") {
  for (const auto& [name, value] : to_metadata(record())) {
    bool may_be_missing = name == "progress.best" || name == "progress.ema_updates" ||
                          name == "progress.loss_scale" || name == "progress.finite_in_a_row" ||
                          name == "progress.skipped_updates" || name == "checkpoint.plan" ||
                          name.starts_with("identity.") || name.starts_with("notes.");
    if (may_be_missing) continue;
    io::Metadata metadata = to_metadata(record());
    metadata.erase(name);
    CHECK(contains(refused(metadata), "there is no '" + name + "'"));
  }
  for (const char* name : {"", "format", "progress.", "progress.bes", "checkpoint.", "notes"}) {
    io::Metadata metadata = to_metadata(record());
    metadata[name] = "1";
    CHECK(contains(refused(metadata), "'" + std::string(name) + "' is not known"));
  }
}

TEST_CASE("what is not quite a number is refused") {
  auto refuse_in = [](const char* name, const char* value) {
    io::Metadata metadata = to_metadata(record());
    REQUIRE(metadata.contains(name));
    metadata[name] = value;
    CAPTURE(value);
    CHECK(contains(refused(metadata), "expected a number in '" + std::string(name) + "'"));
  };
  for (const char* value : {"", " ", "-1", "+1", " 1", "1 ", "1.0", "0x1", "1e3", "one", "1\n",
                            "9223372036854775808", "99999999999999999999"})
    for (const char* name : {"progress.updates", "progress.batch", "progress.ema_updates"})
      refuse_in(name, value);
  for (const char* value :
       {"", "nan", "inf", "-inf", "infinity", "1e999", "0x1p3", "1,5", "+1", " 1", "1.5 ", "--1"})
    for (const char* name : {"progress.loss_sum", "progress.best"}) refuse_in(name, value);
  for (const char* value : {"-1", "18446744073709551616", "", "0xff"})
    refuse_in("checkpoint.checksum", value);
  io::Metadata metadata = to_metadata(record());
  metadata["progress.batch"] = "\x1b[2J" + std::string(1000, 'x');
  CHECK(contains(refused(metadata), R"(got "\x1b[2Jxxx)"));
  CHECK(refused(metadata).size() < 200);
}
