#include "brim/shrink/channel_groups.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "brim/nn/eval_scope.h"
#include "brim/nn/meta_run.h"
#include "brim/shrink/channel_tracer.h"

namespace brim::shrink {
namespace {

/// Where the channels of one set are, in the order of leaves, axes and indices.
struct Place {
  size_t leaf, axis;
  int64_t index;
  bool is_along(const Place& other) const { return leaf == other.leaf && axis == other.axis; }
};
using Places = std::vector<Place>;
/// Leaf, axis, and how many indices of it.
using Signature = std::vector<std::array<size_t, 3>>;

std::map<int64_t, Places> places_of(ChannelTracer& tracer) {
  std::map<int64_t, Places> sets;
  const std::vector<ChannelTracer::Leaf>& leaves = tracer.leaves();
  for (size_t leaf = 0; leaf < leaves.size(); ++leaf)
    for (size_t axis = 0; axis < leaves[leaf].axes.size(); ++axis) {
      const ChannelIds& ids = leaves[leaf].axes[axis].ids;
      for (size_t i = 0; i < ids.size(); ++i)
        if (const int64_t set = tracer.sets().find(ids[i]); set != ChannelSets::kFixed)
          sets[set].push_back({leaf, axis, static_cast<int64_t>(i)});
    }
  return sets;
}

Signature signature_of(const Places& places) {
  Signature signature;
  for (size_t i = 0; i < places.size(); ++i) {
    if (i == 0 || !places[i].is_along(places[i - 1]))
      signature.push_back({places[i].leaf, places[i].axis, 0});
    ++signature.back()[2];
  }
  return signature;
}

std::string module_of(const std::string& tensor) {
  const size_t dot = tensor.rfind('.');
  return dot == std::string::npos ? tensor : tensor.substr(0, dot);
}

class Groups {
 public:
  explicit Groups(ChannelTracer& tracer) : leaves_(tracer.leaves()) {
    for (const ChannelTracer::Leaf& leaf : leaves_) found_.tensors.push_back(leaf.tensor);
    for (const auto& [set, places] : places_of(tracer)) add_unit(group_of(places), places);
    for (ChannelGroup& group : found_.groups)
      group.name = module_of(found_.tensors[group.named_axis().tensor].name);
    found_.unknown_ops.assign(tracer.unknown_ops().begin(), tracer.unknown_ops().end());
  }
  ChannelGroups take() { return std::move(found_); }

 private:
  ChannelGroup& group_of(const Places& places) {
    Signature signature = signature_of(places);
    auto [known, is_new] = numbers_.try_emplace(signature, found_.groups.size());
    if (!is_new) return found_.groups[known->second];
    ChannelGroup& group = found_.groups.emplace_back();
    for (auto [leaf, axis, count] : signature) {
      const ChannelTracer::Axis& traced = leaves_[leaf].axes[axis];
      group.axes.push_back({leaf, traced.axis, traced.role, static_cast<int64_t>(count), {}});
    }
    return group;
  }
  static void add_unit(ChannelGroup& group, const Places& places) {
    ++group.units;
    auto place = places.begin();
    for (ChannelAxis& axis : group.axes)
      for (int64_t i = 0; i < axis.per_unit; ++i) axis.indices.push_back((place++)->index);
  }

  const std::vector<ChannelTracer::Leaf>& leaves_;
  std::map<Signature, size_t> numbers_;
  ChannelGroups found_;
};

}  // namespace

const ChannelAxis& ChannelGroup::named_axis() const {
  auto made = std::ranges::find(axes, ChannelRole::output, &ChannelAxis::role);
  return made == axes.end() ? axes.front() : *made;
}

ChannelGroups find_channel_groups(nn::Module& model, const Shape& input,
                                  const ChannelGroupOptions& options) {
  nn::EvalScope eval(model);
  nn::MetaRun run(model);
  ChannelTracer tracer(model, options);
  tracer.finish(run.forward(input));
  return Groups(tracer).take();
}

}  // namespace brim::shrink
