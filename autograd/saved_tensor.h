// What backward needs is held in saved tensors, and in nothing else. A saved tensor refers to a
// `Value`, a result of an op (or a leaf) as the tape knows it, which is
//
//   resident   the tape, or somebody else, holds its storage; or
//   dropped    nobody does: its producer is run again when the value is needed; or
//   offloaded  it has a copy in the host (offload.h), which is fetched then.
//
// Which of them is the policy's choice (save_policy.h); without one all that is saved is held. A
// value remembers its storage's version: one that was overwritten in the meantime is refused where
// it was held, and made again where it was dropped.
#pragma once

#include <memory>

#include "brim/autograd/save_policy.h"
#include "brim/core/tensor.h"

namespace brim::autograd {

class HostCopy;
class Node;

/// What a saved tensor wants of its value.
struct Reading {
  bool holds = true;        ///< it must stay resident; else it may be dropped and made again
  bool in_backward = true;  ///< by a backward function; else only to make others again
};

class Value {
 public:
  /// A leaf, or what was computed without a record: it can be held, not made again.
  explicit Value(const Tensor& tensor);
  /// Output `output` of `producer`, made in `segment`.
  Value(const Tensor& tensor, std::weak_ptr<Node> producer, int output, Fate fate,
        const Segment& segment);

  /// Is `tensor` what this is a value of, unchanged?
  bool is_of(const Tensor& tensor) const;
  /// Can it be had without running an op? Also where only others hold it, or the host.
  bool is_resident() const { return copy_ != nullptr || resident_storage() != nullptr; }
  /// Does the tape hold it?
  bool is_held() const { return hold_.storage() != nullptr; }
  /// Will backward read it?
  bool is_wanted() const { return users_ > 0; }
  /// Will nothing read it, not even to make something else again?
  bool is_unread() const { return readers_ == 0; }
  /// Did its producer keep what it takes to run again?
  bool can_be_made_again() const;
  /// The values, unknown to the tape; made again where they were dropped (rebuild.h), fetched where
  /// they were offloaded. Throws `AutogradError`, naming the op that wrote to it, for a held one
  /// that was overwritten; `memory::OutOfMemory`.
  Tensor get(const char* op);

  /// Before it has readers: is held for those who would have it stay and those in backward, until
  /// it is dropped, which none of them forbids.
  void hold_until_dropped() { is_held_until_dropped_ = true; }
  void add_reader(const Reading& reading);
  void remove_reader(const Reading& reading);

  /// Lets go of it, unless someone must have it: it can be made again.
  void drop();
  /// Would `drop` let go of it, and can it be made again?
  bool is_droppable() const { return holders_ == 0 && can_be_made_again(); }
  /// `tensor` has its values from now on, held only by who has the tensor, until a reader comes.
  void renew(const Tensor& tensor);
  /// For rebuilding: the result of running the producer again. Held where it `is_next` to be read;
  /// else where it is retained and lies no deeper than what is next, which is at `depth`.
  void set(const Tensor& tensor, bool is_next, int depth);
  std::shared_ptr<Node> producer() const { return producer_.lock(); }
  int output() const { return output_; }  ///< of the producer
  /// Its storage holds other values from now on.
  void forget_storage() { storage_.reset(); }
  /// Where a function ends whose results its caller keeps (checkpoint.h).
  void leave_segment(const Segment& outer);
  Fate fate() const { return fate_; }
  const Segment& segment() const { return segment_; }
  int64_t bytes() const;
  /// Once made again, is it held for another function of backward?
  bool is_retained() const { return users_ > 0 && fate_ != Fate::remake; }

  // For offloading (host_copy.h).
  /// What the tape holds; null where it does not.
  const std::shared_ptr<Storage>& held_storage() const { return hold_.storage(); }
  /// Was its storage written to since it was saved? Not where it is gone.
  bool is_overwritten() const;
  /// Does the tape hold it as it was saved?
  bool holds_current() const { return is_held() && hold_.storage()->version() == version_; }
  const std::shared_ptr<HostCopy>& copy() const { return copy_; }
  /// Of a held one: it goes where the copy goes, until its last reader is gone.
  void join(std::shared_ptr<HostCopy> copy);
  void leave_device() noexcept { hold_ = TapeHold(); }
  /// Its values are in `storage`, or will be when a copy is done.
  void return_to(const std::shared_ptr<Storage>& storage);

 private:
  std::shared_ptr<Storage> resident_storage() const;
  void count_reader(const Reading& reading, int by);
  [[noreturn]] void raise_overwritten(const char* op, const Storage& storage) const;
  void leave_copy();

  Layout layout_;
  std::weak_ptr<Storage> storage_;
  TapeHold hold_;
  std::shared_ptr<HostCopy> copy_;  // null unless it may be offloaded
  uint32_t version_ = 0;
  std::weak_ptr<Node> producer_;
  int output_ = 0;
  Fate fate_ = Fate::keep;
  Segment segment_;
  bool is_held_until_dropped_ = false;
  int readers_ = 0;
  int holders_ = 0, users_ = 0;  // among them: who forbid to drop it, who will want it
};

/// A reader of a value.
class SavedTensor {
 public:
  SavedTensor() = default;
  /// An undefined tensor for null.
  SavedTensor(std::shared_ptr<Value> value, const Reading& reading);
  SavedTensor(SavedTensor&& other) noexcept;
  SavedTensor& operator=(SavedTensor&& other) noexcept;
  ~SavedTensor();

  /// The tensor, unknown to the tape; see `Value::get`.
  Tensor get(const char* op) const { return value_ ? value_->get(op) : Tensor(); }
  Value* value() const { return value_.get(); }

 private:
  std::shared_ptr<Value> value_;
  Reading reading_;
};

}  // namespace brim::autograd
