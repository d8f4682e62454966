// The CPU's kernels as a list of calls, recorded once and then made as often as one likes: the same
// kernels with the same arguments, addresses included, without the shapes, the tape and the account
// of the code that launched them. What a CUDA graph is on a GPU (base/cuda/graph.h). What changes
// from one run to the next has to be read from memory. For a whole training step see
// train/step_graph.h.
//
//   CallRecording recording;
//   ...                            // launches; nothing runs
//   CallList calls = recording.finish();
//   calls.run();
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace brim {

class CallList {
 public:
  /// Bytes of the host that are copied to a tensor, from where they are at each run.
  struct Upload {
    const void* from = nullptr;
    int64_t bytes = 0;
  };

  /// Makes all calls, one after the other. Throws what kernels throw; those behind do not run then.
  /// Throws `ValueError` where there are other threads than when it was recorded, for which kernels
  /// have their scratch.
  void run() const;
  /// In the order of the copies. Those of the recording, until somebody names other places.
  const std::vector<std::unique_ptr<Upload>>& uploads() const { return uploads_; }
  int64_t size() const { return std::ssize(calls_); }

 private:
  friend class CallRecording;
  std::vector<std::function<void()>> calls_;
  std::vector<std::unique_ptr<Upload>> uploads_;
  int threads_ = 0;
};

/// While it lives, what this thread launches on the CPU is recorded and does not run: there are no
/// values yet. Whoever asks a tensor for some gets a `ValueError`.
class CallRecording {
 public:
  /// Throws `ValueError` inside another one of this thread.
  CallRecording();
  /// Drops what was not finished.
  ~CallRecording();
  CallRecording(const CallRecording&) = delete;
  CallRecording& operator=(const CallRecording&) = delete;
  /// Ends it.
  CallList finish();

  /// This thread's; null outside of one.
  static CallRecording* current();
  /// Of `launch` (launch.h).
  void add(std::function<void()> call) { list_.calls_.push_back(std::move(call)); }
  /// Of `copy_from_host` (transfer.h).
  void upload(void* to, const void* from, int64_t bytes);

 private:
  CallList list_;
};

/// Is what this thread launches recorded, on whatever device?
bool is_recording();
/// Throws `ValueError` naming `tag` where calls of the CPU are: there are no values then.
void require_not_recording(const char* tag);

}  // namespace brim
