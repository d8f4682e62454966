#include "brim/base/cuda/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "brim/base/cuda/error.h"

namespace brim::cuda {
namespace {

std::vector<std::string> toolkit_folders() {
  std::vector<std::string> folders;
  for (const char* variable : {"CUDNN_HOME", "CUDNN_PATH", "CUDA_HOME", "CUDA_PATH"})
    if (const char* root = std::getenv(variable); root != nullptr && *root != '\0')
      for (const char* name : {"/lib64", "/lib"}) folders.push_back(std::string(root) + name);
  for (const char* name : {"/lib64", "/lib"})
    folders.push_back(std::string("/usr/local/cuda") + name);
  return folders;
}

}  // namespace

Library::Library(const std::string& file) : file_(file) {
  handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::string why = handle_ == nullptr ? dlerror() : "", looked;
  for (const std::string& folder : toolkit_folders()) {
    if (handle_ == nullptr) handle_ = dlopen((folder + "/" + file).c_str(), RTLD_NOW | RTLD_LOCAL);
    looked += ", " + folder;
  }
  expect<MissingLibraryError>(handle_ != nullptr, "cuda",
                              "cannot load {} ({}); looked where the system's loader does{}", file,
                              why, looked);
}

void* Library::find(const char* name) const {
  void* function = dlsym(handle_, name);
  expect<MissingLibraryError>(function != nullptr, "cuda",
                              "{} has no function {}: another version?", file_, name);
  return function;
}

}  // namespace brim::cuda
