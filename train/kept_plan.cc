#include "brim/train/kept_plan.h"

#include <charconv>

#include "brim/base/bytes.h"
#include "brim/base/error.h"
#include "brim/io/checksum.h"
#include "brim/memory/plan/plan_json.h"

namespace brim {
namespace {

constexpr const char* kTag = "plan";

uint64_t sum_of(std::string_view text) {
  io::Checksum sum;
  sum.add(text);
  return sum.value();
}

/// The number at the start of `text`, which then begins behind it and a blank.
template <class T>
T take_number(std::string_view& text) {
  T value{};
  const char* end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, value);
  expect<FileError>(error == std::errc() && at != end && *at == ' ', kTag,
                    "the plan of the checkpoint is damaged: expected a number and a blank");
  text.remove_prefix(static_cast<size_t>(at - text.data()) + 1);
  return value;
}

}  // namespace

// "checksum micro-batch capacity {plan}"
std::string to_text(const KeptPlan& kept) {
  const std::string all =
      fmt::format("{} {} {}", kept.micro_batch, kept.capacity, memory::to_json(*kept.plan));
  return fmt::format("{} {}", sum_of(all), all);
}

KeptPlan kept_plan_from(std::string_view text, int64_t capacity, const PlanQuestion& question) {
  const auto written = take_number<uint64_t>(text);
  expect<FileError>(sum_of(text) == written, kTag,
                    "the plan of the checkpoint is damaged: its checksum is {}, but it was written "
                    "with {}",
                    sum_of(text), written);
  KeptPlan kept{.micro_batch = take_number<int64_t>(text), .capacity = take_number<int64_t>(text)};
  expect<FileError>(kept.micro_batch >= 1 && kept.capacity >= 1, kTag,
                    "the plan of the checkpoint is damaged: expected a micro-batch and a capacity "
                    "above 0, got {} and {}",
                    kept.micro_batch, kept.capacity);
  expect<FileError>(kept.capacity == capacity, kTag,
                    "the plan of the checkpoint was made for {} ({} bytes), and there are {} ({} "
                    "bytes) now",
                    format_bytes(kept.capacity), kept.capacity, format_bytes(capacity), capacity);
  kept.plan =
      std::make_shared<memory::Plan>(memory::plan_from_json(text, question(kept.micro_batch)));
  return kept;
}

}  // namespace brim
