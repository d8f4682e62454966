// Which stream of a device a thread works on. Work on one stream runs in the order in which it was
// enqueued, and work on two in any: bytes that one gives back are not the other's before its work
// is done. On the CPU there is one stream, 0, and everything is done when it returns.
//
// Bytes belong to the stream that asked for them. Whoever uses them on another one orders the two
// before the release; planners know of no other use.
#pragma once

namespace brim::memory {

/// The stream that this thread enqueues work on, and asks for bytes for; 0 unless a scope says
/// otherwise.
int current_stream();

/// Sets it until the scope ends.
class StreamScope {
 public:
  explicit StreamScope(int stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  int before_;
};

/// How a device orders the work of its streams, for planners that hand bytes of one stream to
/// another or back to the source: given to the source (`Source::set_stream_order`), which asks
/// nothing where there is none. Called under the account's lock: it must not allocate from it.
class StreamOrder {
 public:
  virtual ~StreamOrder() = default;
  /// Work enqueued on `waiting` from now on starts after all that is on `waited` now, what that
  /// waits for included (cudaStreamWaitEvent).
  virtual void wait(int waiting, int waited) noexcept = 0;
  /// Returns when the work that is on `stream` now is done, what it waits for included.
  virtual void finish(int stream) noexcept = 0;
};

}  // namespace brim::memory
