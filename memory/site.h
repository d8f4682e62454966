// What a thread is doing when it asks for bytes: the op, the modules it runs in, the line that
// called it, forward or backward. The account notes it with every buffer, so that traces and
// messages can say where bytes come from. `autograd::apply` and `backward` open a scope for every
// op; open one yourself around allocations outside of ops that should have a name.
#pragma once

#include <cstdint>
#include <string>

namespace brim::memory {

enum class Phase : uint8_t { other, forward, backward, update, recompute };
inline constexpr int kPhaseCount = 5;
constexpr const char* to_string(Phase phase) {
  constexpr const char* kNames[kPhaseCount] = {"other", "forward", "backward", "update",
                                               "recompute"};
  return kNames[static_cast<int>(phase)];
}

struct Site {
  const char* op = "";                  ///< "conv2d"; "" outside of ops. Lives for ever
  const std::string* module = nullptr;  ///< dotted path, kept for ever; null for none
  const char* file = "";                ///< of the line that called the op; "" where unknown
  uint32_t line = 0;
  Phase phase = Phase::other;
  /// Tells one run of an op on this thread from the next; 0 outside of scopes.
  uint64_t run = 0;

  /// "layer1.0.conv1"; "" at the root.
  const std::string& path() const;
};

/// "layer1.0.conv1: conv2d at nn/models/resnet.cc:40, backward", without what is not known; "" for
/// a site of which nothing is.
std::string to_string(const Site& site);

/// Of this thread.
const Site& current_site();

/// Sets the site of this thread until the scope ends, with a `run` of its own.
class SiteScope {
 public:
  explicit SiteScope(const Site& site);
  ~SiteScope();
  SiteScope(const SiteScope&) = delete;
  SiteScope& operator=(const SiteScope&) = delete;

 private:
  Site before_;
};

}  // namespace brim::memory
