// A node of the tape: one recorded call of an op, with edges to what produced its inputs. The
// tape is the set of nodes reachable from the results that are still held. Used by backward and
// by code that inspects the tape; ops see only `BackwardCall`.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "brim/autograd/op.h"
#include "brim/autograd/saved_tensor.h"

namespace brim::autograd {

/// Sees a gradient; may return another of the same shape, dtype and device to replace it, or an
/// undefined tensor.
using Hook = std::function<Tensor(const Tensor&)>;
using Hooks = std::vector<Hook>;

/// Where the gradient of an input goes: to a node's output, to a leaf, or (neither) nowhere.
struct Edge {
  std::shared_ptr<Node> node;
  int output = 0;
  std::shared_ptr<TensorBody> leaf;
  bool wanted() const { return node != nullptr || leaf != nullptr; }
};

class Node {
 public:
  Node() = default;
  /// Iterative: a graph of any depth does not overflow the stack.
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  std::shared_ptr<const Op> op;
  std::vector<Edge> edges;  ///< one per input
  std::vector<TensorInfo> inputs, outputs;
  std::vector<std::pair<int, SavedTensor>> saved_inputs, saved_outputs;  ///< by number
  /// One per input, to run the call again with; empty where it will not be.
  std::vector<SavedTensor> replay_inputs;
  std::vector<std::shared_ptr<Value>> values;  ///< one per output; null where nobody asked yet
  ForwardContext context;
  Where where;
  const std::string* module = nullptr;
  uint64_t sequence = 0;                    ///< later calls have larger numbers
  bool released = false;                    ///< backward ran and gave the saved tensors up
  std::vector<std::pair<int, Hook>> hooks;  ///< by output

  // During backward only.
  Tensors grads;
  bool queued = false;

  /// Of what runs for this call.
  memory::Site site(memory::Phase phase) const;
  /// Will backward read saved input i, which was dropped, by rows that are made again?
  bool remakes_rows(int i, const Value& value) const;
  /// Will it read the inputs instead of saved output i, which was dropped?
  bool derives_output(int i, const Value& value) const;
  /// Makes again what else backward will read and was dropped. Returns what nobody else holds.
  Tensors make_saved_resident();
  void release_saved();
  /// Lets go of what backward has read for the last time, and of what was kept only to make again
  /// what nothing reads any more. Iterative.
  static void release(std::deque<SavedTensor> readers);
  /// Will nothing read its results?
  bool is_unread() const;
};

/// The producer of a tensor; null for leaves.
std::shared_ptr<Node> producer_of(const Tensor& tensor);
/// What the tape knows of a tensor; null for an undefined one. A tensor that was written to since
/// its producer made it is a value of its own.
std::shared_ptr<Value> value_of(const Tensor& tensor);
/// What it was before the op that comes now wrote over it.
std::shared_ptr<Value> value_before(const Tensor& tensor);

}  // namespace brim::autograd
