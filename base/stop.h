// The wish that work ends before it is done, by Ctrl-C say. Who starts long work puts a `StopScope`
// around it; the work looks whether a stop was asked for wherever it asks for bytes
// (memory/account.h), and between the steps of searches that ask for none, and throws `Stop` there.
// What is half done is undone on the way, as after any exception: an update of a training, a plan.
#pragma once

#include <exception>
#include <functional>

namespace brim {

/// Not an `Error`: nothing is wrong, and nobody who mends errors is meant.
class Stop final : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped"; }
};

/// Called often, and by several threads at once.
using StopAsked = std::function<bool()>;

/// What says in this thread whether to stop; null for nothing.
const StopAsked* stop_asked();

/// Throws `Stop` where a stop was asked for in this thread.
void stop_if_asked();

/// Sets it for this thread until the scope ends. Null: what is done inside is done to its end.
class StopScope {
 public:
  /// `asked` must outlive it.
  explicit StopScope(const StopAsked* asked);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  const StopAsked* before_;
};

}  // namespace brim
