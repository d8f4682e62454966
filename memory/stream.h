// Which stream of a device a thread works on. Work on one stream runs in the order in which it was
// enqueued, and work on two in any: bytes that one gives back are not the other's before its work
// is done. On the CPU there is one stream, 0, and everything is done when it returns.
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

}  // namespace brim::memory
