#include "brim/tests/support/op_spec.h"

#include <doctest/doctest.h>

#include "brim/memory/account.h"
#include "brim/tests/support/checker.h"
#include "brim/tests/support/plain_cublaslt.h"

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

void skip_cuda(const OpSpec& spec, const std::string& why) {
  MESSAGE("skipped: ", spec.op, " on CUDA against the CPU (", why, ")");
}

/// Adds what is wrong on a GPU. Not every op has its kernels there: what lacks one is skipped.
void check_cuda(const OpSpec& spec, std::vector<std::string>& faults) {
  std::vector<std::string> found;
  testing::use_plain_cublaslt();
  for (const OpSample& sample : spec.samples)
    for (Dtype dtype : spec.dtypes)
      testing::check_sample_on(Device::cuda(), spec, sample, dtype, found);
  std::string lacking;
  for (const std::string& text : found) {
    if (text.find(" has no kernel for ") == std::string::npos)
      faults.push_back("cuda: " + text);
    else if (lacking.empty())
      lacking = text;
  }
  if (!lacking.empty()) skip_cuda(spec, lacking);
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
  if (std::string why = why_no_cuda(); why.empty())
    check_cuda(spec, faults);
  else
    skip_cuda(spec, why);
  for (const std::string& text : faults) FAIL_CHECK(text);
  CHECK_MESSAGE(faults.empty(), spec.op, ": ", faults.size(), " faults");
}

}  // namespace brim
