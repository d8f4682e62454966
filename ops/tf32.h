// Whether a GPU may multiply float32 in TF32: operands rounded to 10 bits of mantissa, sums in
// float32. Several times faster where a GPU has tensor cores for it (since Ampere), with other
// numbers; off at first, unlike PyTorch's `torch.backends.cudnn.allow_tf32`. Of convolutions and
// matrix products alone, depthwise convolutions not among them. A CPU takes no notice. For halves
// use `Autocast` (autocast.h).
#pragma once

namespace brim {

/// For the whole process. Set it between trainings: a plan is for one setting, and backward, which
/// may run a forward op again, is to run it as it was.
void set_allow_tf32(bool allow);
bool allow_tf32();

/// Sets it until the scope ends.
class AllowTf32Scope {
 public:
  explicit AllowTf32Scope(bool allow) : before_(allow_tf32()) { set_allow_tf32(allow); }
  ~AllowTf32Scope() { set_allow_tf32(before_); }
  AllowTf32Scope(const AllowTf32Scope&) = delete;
  AllowTf32Scope& operator=(const AllowTf32Scope&) = delete;

 private:
  bool before_;
};

}  // namespace brim
