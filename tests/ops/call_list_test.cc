// A recording runs nothing until it is run, then as often as one likes on what is in its buffers at
// the time; halves that are widened, attributes and scratch included. Values cannot be read while
// it lasts.
#include "brim/core/call_list.h"

#include <doctest/doctest.h>

#include "brim/base/parallel.h"
#include "brim/core/transfer.h"
#include "brim/ops/add.h"
#include "brim/ops/exp.h"
#include "brim/ops/matmul.h"

using namespace brim;

namespace {

using Values = std::vector<float>;

/// What `compute` gives for 1, 2, ... as `dtype`, at once and from a recording made with zeros.
void check_same(Dtype dtype, const std::function<Tensor(const Tensor&)>& compute) {
  // What it plans for, as a plan would be kept: scratch lies in it when the calls run, too.
  const memory::AccountScope planned(memory::capped_host_account("caching"));
  const Tensor x = zeros({4, 4}, {.dtype = dtype});
  CallRecording recording;
  const Tensor y = compute(x);
  const CallList calls = recording.finish();
  CHECK(calls.size() > 0);
  for (float factor : {1.0f, 0.25f}) {
    Values values(16);
    for (size_t i = 0; i < 16; ++i) values[i] = factor * static_cast<float>(i);
    copy_into(x, convert_to(from_vector(values, {4, 4}), {.dtype = dtype}));
    fill(y, -1);
    calls.run();
    CHECK(y.to_vector<float>() == compute(x).to_vector<float>());
    CHECK(y.to_vector<float>()[0] != -1);
  }
}

}  // namespace

TEST_CASE("a recording computes what the code computes, on new numbers") {
  for (Dtype dtype : {Dtype::float32, Dtype::float64, Dtype::bfloat16, Dtype::float16}) {
    CAPTURE(to_string(dtype));
    check_same(dtype, [](const Tensor& x) { return add(x, x); });
    check_same(dtype, [](const Tensor& x) { return exp(x); });
    check_same(dtype, [](const Tensor& x) { return matmul(x, x); });
  }
}

TEST_CASE("calls are for as many threads as there were") {
  const int before = num_threads();
  const Tensor x = full({4, 4}, 1);
  set_num_threads(3);
  CallRecording recording;
  const Tensor y = add(x, x);
  const CallList calls = recording.finish();
  set_num_threads(2);
  CHECK_THROWS_WITH_AS(calls.run(), "replay: recorded with 3 threads, but now there are 2",
                       ValueError);
  set_num_threads(3);
  calls.run();
  set_num_threads(before);
  CHECK(y.to_vector<float>() == Values(16, 2.0f));
}

TEST_CASE("calls take subnormal numbers for 0, as launches do") {
  const Tensor x = full({4, 4}, 1e-39);
  CallRecording recording;
  const Tensor y = add(x, x);
  const CallList calls = recording.finish();
  calls.run();
  CHECK(add(x, x).to_vector<float>() == Values(16, 0.0f));
  CHECK(y.to_vector<float>() == Values(16, 0.0f));
}

TEST_CASE("nothing runs while it is recorded, and values are refused") {
  const Tensor x = full({3}, 2);
  {
    CallRecording recording;
    CHECK(is_recording());
    fill(x, 5);
    CHECK_THROWS_WITH_AS(x.to_vector<float>(), doctest::Contains("no values to read yet"),
                         ValueError);
    CHECK_THROWS_WITH_AS(x.data<float>(), doctest::Contains("no values to read yet"), ValueError);
    CHECK_THROWS_WITH_AS(CallRecording(), doctest::Contains("is recording already"), ValueError);
    CHECK(is_recording());
  }
  CHECK(!is_recording());
  CHECK(x.to_vector<float>() == Values(3, 2));
}

TEST_CASE("copies from the host read where they are told to") {
  const Tensor x = zeros({2});
  const Values first{1, 2}, second{3, 4};
  CallRecording recording;
  copy_from_host(x, first.data());
  const CallList calls = recording.finish();
  REQUIRE(calls.uploads().size() == 1);
  CHECK(calls.uploads()[0]->from == first.data());
  CHECK(calls.uploads()[0]->bytes == 8);
  CHECK(x.to_vector<float>() == Values{0, 0});
  calls.run();
  CHECK(x.to_vector<float>() == first);
  calls.uploads()[0]->from = second.data();
  calls.run();
  CHECK(x.to_vector<float>() == second);
}
