// A compiled convolution or product of oneDNN, and what the files that make them share: which
// implementations will do, and a cache of those that were made. Includes oneDNN: for ops/onednn*.cc
// alone.
#pragma once

#include <algorithm>
#include <array>
#include <dnnl.hpp>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>

#include "brim/core/launch.h"
#include "brim/ops/onednn.h"

namespace brim::onednn {

using dnnl::memory;
using DataType = memory::data_type;

const dnnl::engine& engine();

/// Scratch is the caller's.
dnnl::primitive_attr attributes();

/// Does an implementation of this name work in the scratch that it is given, and not slowly?
bool keeps_to_scratch(const char* implementation);

/// Moves on to such an implementation; false when there is none.
struct KeepsToScratch {
  template <class Description>
  bool operator()(Description& description) const {
    while (!keeps_to_scratch(description.impl_info_str()))
      if (!description.next_impl()) return false;
    return true;
  }
};

struct Argument {
  int number;
  memory::desc desc;
};

class Primitive {
 public:
  /// Arguments in the order of `run`; `weight` is the place among them of what is stored in another
  /// layout than oneDNN wants, 2 where it is the result.
  template <class Compiled, class PrimitiveDesc>
  static std::unique_ptr<Primitive> make(const PrimitiveDesc& desc, Argument first, Argument second,
                                         Argument result, std::optional<Argument> bias, int weight,
                                         const memory::desc& stored) {
    auto made = std::make_unique<Primitive>();
    made->name_ = desc.impl_info_str();
    made->arguments_ = {first, second, result};
    made->bias_ = bias;
    made->scratchpad_ = desc.scratchpad_desc();
    made->weight_ = weight;
    made->stored_ = stored;
    made->plan_reorder();
    made->compile_ = [desc] { return dnnl::primitive(Compiled(desc)); };
    return made;
  }

  /// `packed`: the weights are in the order that is wanted.
  int64_t scratch_bytes(bool packed = false) const;
  void run(const void* first, const void* second, const void* bias, void* result, void* scratch,
           bool packed = false) const;
  int64_t packed_bytes() const;
  bool packs_like(const Primitive& other) const { return wanted() == other.wanted(); }
  void pack(const void* weight, void* packed, void* scratch) const;
  const char* name() const { return name_.c_str(); }

 private:
  struct Parts;
  struct Place {
    const memory::desc& desc;
    void* data;
  };

  const memory::desc& wanted() const { return arguments_[static_cast<size_t>(weight_)].desc; }
  void plan_reorder();
  void reorder(dnnl::stream& stream, Place from, Place to, const Parts& parts) const;
  void compile() const;

  std::string name_;
  std::array<Argument, 3> arguments_{};
  std::optional<Argument> bias_;
  memory::desc scratchpad_, stored_;
  int weight_ = 0;
  dnnl::reorder::primitive_desc reorder_;
  std::function<dnnl::primitive()> compile_;
  mutable std::once_flag compiled_;
  mutable dnnl::primitive primitive_, reorder_primitive_;
};

/// Those that were made and used last: of each key one, or null where oneDNN refuses it. Which are
/// left out changes times alone: the same key is answered by the same implementation.
template <class Key>
class Cache {
 public:
  /// A ResNet-152 in training has about 100 for each size of its batch.
  static constexpr size_t kMost = 1024;

  explicit Cache(size_t most = kMost) : most_(most) {}

  template <class Make>
  PrimitivePtr find(const Key& key, const Make& make) {
    std::lock_guard lock(mutex_);
    auto found = made_.find(key);
    if (found == made_.end()) {
      PrimitivePtr primitive = checked(make);
      if (made_.size() >= most_)
        made_.erase(std::ranges::min_element(
            made_, {}, [](const auto& entry) { return entry.second.last_use; }));
      found = made_.emplace(key, Entry{std::move(primitive)}).first;
    }
    found->second.last_use = ++uses_;
    return found->second.primitive;
  }

 private:
  template <class Make>
  static std::unique_ptr<Primitive> checked(const Make& make) {
    try {
      return make();
    } catch (const dnnl::error& error) {
      // Sizes that oneDNN refuses are not an error of the caller's. Any other failure may pass, and
      // must not decide for good how they are computed.
      if (error.status != dnnl_unimplemented && error.status != dnnl_invalid_arguments)
        raise_failure(error.status, error.what());
    } catch (const std::bad_alloc& error) {
      raise_failure(dnnl_out_of_memory, error.what());
    }
    return nullptr;
  }

  struct Entry {
    PrimitivePtr primitive;
    int64_t last_use = 0;
  };

  size_t most_;
  std::mutex mutex_;
  int64_t uses_ = 0;
  std::map<Key, Entry> made_;
};

}  // namespace brim::onednn
