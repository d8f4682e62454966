// What may be dropped of the tape, and what it costs to have it again: for `DynamicEviction`. A
// *unit* is the storage of a result with all values over it, views too: dropping less frees
// nothing. Its parents are the units that its producer reads, its children those made from it.
//
// To make a unit again, missing parents must be made first; and missing children need it, those
// that backward wants or for whose sake they are wanted. Their costs are kept for connected missing
// units together, in sets that grow and are not split: the approximation h_DTR^eq of Kirisame et
// al., "Dynamic Tensor Rematerialization", 2021.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "brim/autograd/node.h"

namespace brim::autograd {

class EvictionGraph {
 public:
  static constexpr int kNone = -1;

  enum class State : uint8_t {
    droppable,  ///< only the tape holds it, and can do without
    needed,     ///< somebody holds it who cannot
    gone,       ///< dropped, or no longer wanted
  };

  /// Adds the results of a recorded call. Units are numbered from 0 in the order of calls.
  void add(const Node& node, const Tensors& outputs);
  int size() const { return static_cast<int>(units_.size()); }
  /// `kNone` for leaves, statistics that are always kept, and what is not of this graph.
  int unit_of(const Value* value) const;

  int64_t bytes(int unit) const { return at(unit).bytes; }
  const std::vector<int>& parents(int unit) const { return at(unit).parents; }
  const std::vector<int>& children(int unit) const { return at(unit).children; }
  /// Of making it again now, in floating point operations; a byte moved counts as some.
  double cost(int unit);
  State state(int unit, const memory::Account& account) const;

  /// A droppable one.
  void drop(int unit);
  /// It is there again, or will not be wanted.
  void leave_set(int unit);

 private:
  struct Unit {
    std::vector<std::weak_ptr<Value>> values;
    int64_t bytes = 0;
    double cost = 0;                     // of its call alone
    std::vector<int> parents, children;  // the first ones
    int set = kNone;                     // while it is missing, once somebody asked
    bool is_needed = false;              // while it is missing: by a child that was dropped
  };
  struct Set {
    int parent = 0;
    double cost = 0;  // of a root
  };

  const Unit& at(int unit) const { return units_[static_cast<size_t>(unit)]; }
  Unit& at(int unit) { return units_[static_cast<size_t>(unit)]; }
  int view_of(const Node& node, const Tensor& output) const;
  void join(int unit, int other);
  bool is_missing(int unit) const;
  bool is_wanted(int unit) const;
  /// Calls `visit` with the missing ones around it.
  template <class Visit>
  void for_each_missing(int unit, const Visit& visit) const;
  int root_of(int set);
  void unite(int a, int b);
  void settle(int unit);
  void need_parents(int unit);

  std::vector<Unit> units_;
  std::vector<Set> sets_;
  std::unordered_map<const Value*, int> numbers_;  // weak pointers keep addresses from reuse
  std::vector<int> roots_, open_;                  // of one question, kept for their memory
};

}  // namespace brim::autograd
