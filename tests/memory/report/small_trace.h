// A trace of seven buffers whose live bytes can be added up by hand.
#pragma once

#include <string>
#include <utility>

#include "brim/memory/trace.h"

namespace brim::memory::testing {

/// Asks for a buffer; it is held until `release`, or to the end.
inline int64_t request(Trace& trace, int64_t bytes, Category category, const std::string& op = "",
                       const std::string& module = "", Phase phase = Phase::other) {
  TraceBuffer buffer{.bytes = bytes, .category = category};
  buffer.shape = "float32 [" + std::to_string(bytes / 4) + "]";
  buffer.origin = {.op = op, .module = module, .file = "net.cc", .line = 7, .phase = phase};
  buffer.birth = buffer.last_use = trace.end;
  buffer.death = -1;
  trace.buffers.push_back(std::move(buffer));
  return trace.end++;
}

inline void release(Trace& trace, int64_t id) {
  trace.buffers[static_cast<size_t>(id)].death = trace.end;
}

/// What was not released is held to the end.
inline Trace finished(Trace trace) {
  for (TraceBuffer& buffer : trace.buffers)
    if (buffer.death < 0) buffer.death = trace.end;
  return trace;
}

/// Two buffers that stay, then a step of one micro-step and an update.
inline Trace small_trace() {
  Trace trace;
  int64_t weight = request(trace, 640, Category::parameters, "", "conv1");    // 0, 640 live
  request(trace, 640, Category::optimizer);                                   // 1, 1280
  int64_t image = request(trace, 1280, Category::input);                      // 2, 2560
  int64_t y = request(trace, 2560, Category::activations, "conv2d", "conv1",  // 3, 5120
                      Phase::forward);
  int64_t scratch =
      request(trace, 128, Category::scratch, "conv2d", "conv1", Phase::forward);  // 4, 5248
  release(trace, scratch);
  int64_t gradient =
      request(trace, 640, Category::gradients, "conv2d", "conv1", Phase::backward);  // 5, 5760
  release(trace, y);
  release(trace, image);
  release(trace, request(trace, 64, Category::scratch, "sgd", "", Phase::update));  // 6, 1984
  release(trace, gradient);
  trace.sections = {
      {.section = {SectionKind::first_micro_step, 4}, .begin = 2, .end = 6, .step = 0},
      {.section = {SectionKind::update, 0}, .begin = 6, .end = 7, .step = 0}};
  trace.ops = {{.origin = {"conv2d", "conv1", "net.cc", 7, Phase::forward},
                .begin = 3,
                .end = 5,
                .inputs = {image, weight},
                .outputs = {y},
                .flops = 1000,
                .bytes_moved = 4480},
               {.origin = {"conv2d", "conv1", "net.cc", 7, Phase::backward},
                .begin = 5,
                .end = 6,
                .inputs = {y, image},
                .outputs = {gradient},
                .flops = 2000,
                .bytes_moved = 4480}};
  return finished(std::move(trace));
}

inline constexpr int64_t kSmallPeak = 5760, kSmallPeakTime = 5;

}  // namespace brim::memory::testing
