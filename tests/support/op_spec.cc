#include "brim/tests/support/op_spec.h"

#include <doctest/doctest.h>

#include "brim/memory/account.h"
#include "brim/tests/support/checker.h"

namespace brim {
namespace {

int64_t live_bytes() {
  return memory::account(Device::cpu())->stats().live +
         memory::account(Device::meta())->stats().live;
}

void check_error(const OpSpec& spec, size_t number, std::vector<std::string>& faults) {
  const ErrorCase& error_case = spec.errors[number];
  auto fault = [&](const std::string& text) {
    faults.push_back(
        fmt::format("{}, error case {} ('{}'): {}", spec.op, number, error_case.text, text));
  };
  int64_t before = live_bytes();
  try {
    error_case.run();
    fault("nothing was thrown");
  } catch (const Error& error) {
    if (error.tag() != spec.op) fault(fmt::format("the tag is '{}'", error.tag()));
    if (std::string(error.what()).find(error_case.text) == std::string::npos)
      fault(fmt::format("the text is '{}'", error.what()));
  } catch (const std::exception& error) {
    fault(fmt::format("not a brim error: {}", error.what()));
  }
  if (int64_t now = live_bytes(); now != before)
    fault(fmt::format("{} live bytes before, {} after", before, now));
}

/// Why nothing can run on a GPU here; "" where one can.
std::string why_no_cuda() {
  try {
    memory::account(Device::cuda());
    return "";
  } catch (const DeviceError& error) {
    return error.what();
  }
}

std::vector<std::string> find_cuda_faults(const OpSpec& spec) {
  std::vector<std::string> faults;
  for (const OpSample& sample : spec.samples)
    for (Dtype dtype : spec.dtypes)
      testing::check_sample_on(Device::cuda(), spec, sample, dtype, faults);
  return faults;
}

}  // namespace

std::vector<std::string> find_faults(const OpSpec& spec) {
  std::vector<std::string> faults;
  for (const OpSample& sample : spec.samples)
    for (Dtype dtype : spec.dtypes) testing::check_sample(spec, sample, dtype, faults);
  for (size_t i = 0; i < spec.errors.size(); ++i) check_error(spec, i, faults);
  return faults;
}

void check_op(const OpSpec& spec) {
  CHECK_MESSAGE(!spec.samples.empty(), spec.op, " has no samples");
  std::vector<std::string> faults = find_faults(spec);
  if (std::string why = why_no_cuda(); why.empty()) {
    for (std::string& text : find_cuda_faults(spec)) faults.push_back("cuda: " + text);
  } else {
    MESSAGE("skipped: ", spec.op, " on CUDA against the CPU (", why, ")");
  }
  for (const std::string& text : faults) FAIL_CHECK(text);
  CHECK_MESSAGE(faults.empty(), spec.op, ": ", faults.size(), " faults");
}

}  // namespace brim
