// Modules one after the other, named "0", "1", ... in the order of adding.
//
//   nn::Sequential features;
//   features.add<nn::Conv2d>(3, 16, nn::ConvOptions{.kernel = 3});
//   features.add<nn::ReLU>();
#pragma once

#include "brim/nn/module.h"

namespace brim::nn {

class Sequential final : public Module {
 public:
  /// Makes a module of type M at the end, and returns it.
  template <class M, class... Args>
  M& add(Args&&... args) {
    return append(std::make_unique<M>(std::forward<Args>(args)...));
  }
  template <class M>
  M& append(std::unique_ptr<M> module) {
    return register_module(std::to_string(size()), std::move(module));
  }
  Tensor forward(Tensor x) override {
    for (Module* child : children()) x = (*child)(std::move(x), where());
    return x;
  }
  std::string_view kind() const override { return "Sequential"; }

  size_t size() const { return children().size(); }
  bool empty() const { return children().empty(); }
  Module& operator[](size_t i) const { return *children().at(i); }
};

}  // namespace brim::nn
