// Where an op comes from: the caller's source line, and the path of modules it runs in
// ("layer1.0.conv2"). Traces and the error of a loss that is not finite name both; random keys are
// made with the path. `nn::Module` enters its own name when it is called; open a `ModuleScope` in a
// model that is a plain function. Paths are kept until the program ends: name the parts of a model
// with them, never steps or samples.
#pragma once

#include <source_location>
#include <string>
#include <string_view>

namespace brim {

/// The line of user code that called an op. Take it as a last, defaulted parameter:
/// `Tensor relu(Tensor x, Where where = Where::current());`
using Where = std::source_location;

namespace autograd {

/// The modules that run on this thread, outermost first, joined by dots. The reference stays
/// valid for the life of the program.
const std::string& module_path();

/// `path`, kept for the life of the program as those of modules are: what a `memory::Site` wants.
const std::string& kept_path(std::string path);

/// Enters a module until the scope ends.
class ModuleScope {
 public:
  explicit ModuleScope(std::string_view name);
  /// Goes back to a module by the path that `module_path` gave there.
  explicit ModuleScope(const std::string* path);
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  const std::string* before_;
};

}  // namespace autograd
}  // namespace brim
