#include "brim/memory/report/live_curve.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "brim/base/error.h"

namespace brim::memory {

std::vector<BytesByCategory> live_curve(const Trace& trace) {
  std::vector<BytesByCategory> curve(trace.buffers.size() + 1);
  for (const TraceBuffer& buffer : trace.buffers) {
    auto category = static_cast<size_t>(buffer.category);
    curve[static_cast<size_t>(buffer.birth)][category] += buffer.bytes;
    curve[static_cast<size_t>(buffer.death)][category] -= buffer.bytes;
  }
  curve.pop_back();  // after the last request only releases follow
  for (size_t t = 1; t < curve.size(); ++t)
    for (size_t i = 0; i < kCategories; ++i) curve[t][i] += curve[t - 1][i];
  return curve;
}

std::vector<int64_t> totals(const std::vector<BytesByCategory>& curve) {
  std::vector<int64_t> sums;
  sums.reserve(curve.size());
  for (const BytesByCategory& bytes : curve)
    sums.push_back(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}));
  return sums;
}

int64_t peak_time(const std::vector<int64_t>& totals) {
  return std::distance(totals.begin(), std::ranges::max_element(totals)) *
         static_cast<int64_t>(!totals.empty());
}

namespace {

void check_span(const char* what, size_t i, int64_t begin, int64_t end, int64_t last,
                const char* tag) {
  expect<ValueError>(0 <= begin && begin <= end && end <= last, tag,
                     "expected {} {} to lie within times 0 to {}, got {} to {}", what, i, last,
                     begin, end);
}

}  // namespace

void check_trace(const Trace& trace, const char* tag) {
  const auto count = static_cast<int64_t>(trace.buffers.size());
  expect<ValueError>(trace.end == count, tag,
                     "expected a trace that ends at its {} buffers, got {}", count, trace.end);
  for (size_t i = 0; i < trace.buffers.size(); ++i) {
    const TraceBuffer& buffer = trace.buffers[i];
    expect<ValueError>(buffer.birth == static_cast<int64_t>(i) && buffer.death > buffer.birth &&
                           buffer.death <= count && buffer.last_use >= buffer.birth &&
                           buffer.last_use <= count && buffer.bytes >= 0 &&
                           static_cast<size_t>(buffer.category) < kCategories,
                       tag, "buffer {} has {} bytes and lives from {} to {} in a trace of {}", i,
                       buffer.bytes, buffer.birth, buffer.death, count);
  }
  for (size_t i = 0; i < trace.ops.size(); ++i) {
    const TraceOp& op = trace.ops[i];
    check_span("op", i, op.begin, op.end, count, tag);
    for (const auto* ids : {&op.inputs, &op.outputs})
      for (int64_t id : *ids)
        expect<ValueError>(id >= 0 && id < count, tag, "op {} uses buffer {} of {}", i, id, count);
  }
  for (size_t i = 0; i < trace.sections.size(); ++i)
    check_span("section", i, trace.sections[i].begin, trace.sections[i].end, count, tag);
}

}  // namespace brim::memory
