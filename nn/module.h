// The base of layers and models. A module registers its parameters, buffers and children under
// names; everything else follows from that: dotted names as in torchvision, train() and eval(),
// initial values, the module path in messages and traces ("layer1.0.conv2").
//
//   struct Net final : nn::Module {
//     nn::Conv2d conv{3, 16, {.kernel = 3, .padding = 1, .bias = false}};
//     nn::BatchNorm2d bn{16};
//     nn::Linear fc{16, 10};
//     Net() { register_modules({{"conv", conv}, {"bn", bn}, {"fc", fc}}); }
//     Tensor forward(Tensor x) override {
//       x = bn(conv.for_norm(std::move(x)), {.activation = Activation::relu});
//       return fc(global_avg_pool(std::move(x)));
//     }
//   };
//   Net net;
//   nn::initialize(net, /*seed=*/1);
//   Tensor logits = net(images);
//
// A model of several inputs has a `forward` of so many, and is called with them: `net(a, b)`.
//
// Children are plain members; those made at run time are handed over as `std::unique_ptr`.
// Write forward with std::move: each intermediate is then freed as soon as the next op has it.
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "brim/autograd/scope.h"
#include "brim/core/tensor.h"
#include "brim/nn/init.h"

namespace brim::nn {

class Module;

struct NamedTensor {
  std::string name;
  Tensor tensor;
};
/// Whether a parameter was written to; on the meta device always.
bool has_values(const Tensor& tensor);

struct NamedModule {
  std::string name;
  Module& module;
};

class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Runs `forward` under the module's name. On the root, throws `ValueError` while a parameter
  /// has no values; `initialize`, `copy_into` and `fill` give it some, a write through `data()` is
  /// not seen.
  Tensor operator()(Tensor x, Where where = Where::current()) {
    if (bypassed_) return x;
    return call(where, [&] { return forward(std::move(x)); });
  }
  Tensor operator()(Tensor a, Tensor b, Where where = Where::current()) {
    return call(where, [&] { return forward(std::move(a), std::move(b)); });
  }
  Tensor operator()(Tensor a, Tensor b, Tensor c, Where where = Where::current()) {
    return call(where, [&] { return forward(std::move(a), std::move(b), std::move(c)); });
  }
  Tensor operator()(std::vector<Tensor> inputs, Where where = Where::current()) {
    return call(where, [&] { return forward(std::move(inputs)); });
  }
  template <class T>
  requires(!std::is_convertible_v<T, Tensor> &&
           !std::is_convertible_v<T, std::vector<Tensor>>) Tensor
  operator()(const T&) {
    static_assert(std::is_convertible_v<T, Tensor>,
                  "a module is called with tensors: of a batch, net(batch[\"images\"])");
    return {};
  }
  /// Of these a model has that of its inputs; the others throw `ValueError`. More than three come
  /// as a list: `net({a, b, c, d})`.
  virtual Tensor forward(Tensor x);
  virtual Tensor forward(Tensor a, Tensor b);
  virtual Tensor forward(Tensor a, Tensor b, Tensor c);
  virtual Tensor forward(std::vector<Tensor> inputs);
  /// The kind of layer, for people: "Conv2d".
  virtual std::string_view kind() const { return "Module"; }

  /// The name that the parent knows it by; "" for a root.
  const std::string& name() const { return name_; }
  /// In the order of registration, own ones before those of children; dotted names. Undefined
  /// tensors (the bias of a convolution without one) are left out. `prefix`: those at or below it;
  /// throws `ValueError` with the nearest name where there are none.
  std::vector<NamedTensor> named_parameters(std::string_view prefix = "") const;
  std::vector<NamedTensor> named_buffers() const;
  /// The module itself (named ""), then all below it that are not bypassed.
  std::vector<NamedModule> named_modules();
  /// The parameter or buffer of that name; throws `ValueError` with the nearest one otherwise.
  Tensor tensor(std::string_view name) const;
  /// The child, at any depth, of that name; throws `ValueError` with the nearest one otherwise.
  Module& module(std::string_view name);
  /// Whether every parameter has its values.
  bool has_all_values() const;
  /// Throws `ValueError` naming the first parameter that has no values yet.
  void require_values() const;
  /// Elements of all parameters.
  int64_t parameter_count() const;

  /// Batch norm and dropout behave differently in training, which is how a module starts. Frozen
  /// modules stay in eval mode. Throws `ValueError` for training one that `is_folded`.
  void train(bool training = true);
  void eval() { train(false); }
  bool training() const { return training_; }
  /// Was it, or anything in it, made for inference alone (nn/fold.h)?
  bool is_folded() const;

  /// Drops all gradients.
  void zero_grad();
  /// For fine-tuning: parameters at or below `prefix` ("layer1", "fc.weight"; "" for all) no longer
  /// ask for a gradient, and the modules there are in eval mode from now on, whatever `train` says:
  /// their batch norms use the running statistics and leave them, their dropouts do nothing. Make
  /// optimizers and `TrainStep` afterwards: they keep no state for what is frozen. Throws
  /// `ValueError` with the nearest name when there are no parameters.
  void freeze(std::string_view prefix);
  /// Parameters ask for a gradient again, and modules there are in training mode: freeze("") and
  /// then unfreeze("fc") leaves the last layer to train.
  void unfreeze(std::string_view prefix);
  /// Converts parameters and buffers to float32 or float64, or those to bfloat16 that have it in
  /// modules of bfloat16 (`slot_dtype`), and the others to float32. They are new tensors then: make
  /// optimizers afterwards.
  void to(Dtype dtype);

  /// One registered tensor: the member of the module that holds it, and its first values.
  struct Slot {
    std::string name;
    Tensor* tensor;
    Init init;
    bool is_parameter;
    const Module* owner;
  };
  /// For a block that a smaller model does without: called with a tensor, the module gives it back
  /// from now on. What was at or below it, modules, parameters and buffers, is gone, and no longer
  /// listed. Make optimizers afterwards. A call of another kind, with options, is an error then.
  void bypass();
  bool is_bypassed() const { return bypassed_; }
  /// Dotted names of those below this one, in the order of registration.
  std::vector<std::string> bypassed_modules() const;

  /// Names below this module at or below which a file may hold what it has no use for: a part that
  /// other programs have and that is left out here. `load_weights` passes over them.
  virtual std::vector<std::string> skipped_in_files() const { return {}; }
  /// Gives every parameter and buffer its dotted name in messages and snapshots of memory, where a
  /// new one has none. `initialize` and `TrainStep` do.
  void name_in_account() const;
  /// Calls `body` with the dotted name of every slot whose tensor is defined.
  void for_each_slot(const std::function<void(const std::string&, const Slot&)>& body) const;

 protected:
  /// Makes `member` a parameter. It has no values until `initialize`, a file or the caller gives
  /// it some. Throws `ValueError` for a name that is taken, empty or has a dot.
  void register_parameter(std::string name, Tensor& member, const Shape& shape, Init init);
  /// Makes `member` a buffer, state that is not learnt, filled with `value`.
  void register_buffer(std::string name, Tensor& member, const Shape& shape, double value);
  /// Makes a member, or a module that is handed over, a child.
  void register_module(std::string name, Module& child);
  template <class M>
  M& register_module(std::string name, std::unique_ptr<M> child) {
    M& module = *child;
    register_module(std::move(name), module);
    owned_.push_back(std::move(child));
    return module;
  }
  void register_modules(std::initializer_list<NamedModule> children);

  /// Runs `body` under the module's name; for modules with calls of their own.
  template <class Body>
  std::invoke_result_t<const Body&> call(Where where, const Body& body) {
    if (bypassed_) refuse_as_bypassed();
    if (parent_ == nullptr) require_values();
    std::optional<autograd::ModuleScope> scope;
    if (!name_.empty()) scope.emplace(name_);
    where_ = where;
    return body();
  }
  /// Who called this module: the line that a layer's ops report.
  Where where() const { return where_; }
  /// From now on for inference alone.
  void mark_as_folded() { folded_ = true; }

  const std::vector<Module*>& children() const { return children_; }

 private:
  [[noreturn]] void refuse_as_bypassed() const;
  void refuse_as_folded() const;
  void set_frozen(std::string_view prefix, bool frozen);
  void require_new_name(const std::string& name) const;

  std::string name_;
  const Module* parent_ = nullptr;
  std::vector<Slot> slots_;
  std::vector<Module*> children_;
  std::vector<std::unique_ptr<Module>> owned_;
  Where where_;
  bool training_ = true, frozen_ = false, bypassed_ = false, folded_ = false;
};

/// Whether the dotted `name` is `prefix` or below it: "layer1.0.bn1" is below "layer1", "layer10"
/// is not. Everything is below "".
bool is_at_or_below(std::string_view name, std::string_view prefix);

/// While it lives, all parameters and buffers of a module are on the meta device, without bytes:
/// the module can be traced, summarised or asked for its shapes. Their values come back with its
/// end.
class MetaScope {
 public:
  explicit MetaScope(Module& module);
  ~MetaScope();
  MetaScope(const MetaScope&) = delete;
  MetaScope& operator=(const MetaScope&) = delete;

 private:
  std::vector<std::pair<Tensor*, Tensor>> real_;
};

}  // namespace brim::nn
