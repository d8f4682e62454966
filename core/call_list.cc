#include "brim/core/call_list.h"

#include <cstring>
#include <utility>

#include "brim/base/cuda/graph.h"
#include "brim/base/error.h"
#include "brim/base/flush_denormals.h"
#include "brim/base/gathered.h"
#include "brim/base/parallel.h"

namespace brim {
namespace {

thread_local CallRecording* current_recording = nullptr;

}  // namespace

void CallList::run() const {
  expect<ValueError>(num_threads() == threads_, "replay",
                     "recorded with {} threads, but now there are {}", threads_, num_threads());
  const FlushDenormals flush;  // as `launch`
  const int depth = gathering_depth();
  try {
    for (const auto& call : calls_) call();
  } catch (...) {
    while (gathering_depth() > depth) end_gathering();  // the call that would have is not made
    throw;
  }
  check(gathering_depth() == depth, "a scope that was recorded is recorded to its end");
}

CallRecording* CallRecording::current() { return current_recording; }

CallRecording::CallRecording() {
  expect<ValueError>(current_recording == nullptr, "recording", "this thread is recording already");
  current_recording = this;
}

CallRecording::~CallRecording() {
  if (current_recording == this) current_recording = nullptr;
}

CallList CallRecording::finish() {
  check(current_recording == this, "a recording that is finished is under way");
  list_.threads_ = num_threads();
  current_recording = nullptr;
  return std::move(list_);
}

void CallRecording::upload(void* to, const void* from, int64_t bytes) {
  list_.uploads_.push_back(std::make_unique<CallList::Upload>(CallList::Upload{from, bytes}));
  add([to, upload = list_.uploads_.back().get()] {
    std::memcpy(to, upload->from, static_cast<size_t>(upload->bytes));
  });
}

bool is_recording() { return cuda::is_recording() || current_recording != nullptr; }

void require_not_recording(const char* tag) {
  expect<ValueError>(CallRecording::current() == nullptr, tag,
                     "work on the CPU is being recorded, so there are no values to read yet");
}

}  // namespace brim
