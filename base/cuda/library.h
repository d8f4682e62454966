// A shared library that is looked for when it is first used, and not when the program starts: brim
// starts on machines that have none of NVIDIA's. For cuBLASLt and cuDNN (cublaslt.cuh, cudnn.cuh),
// each a table of the functions that brim calls. CUDA's runtime is linked into the program.
#pragma once

#include <string>

namespace brim::cuda {

class Library {
 public:
  /// `file` is a name such as "libcudnn.so.9". Looks where the system's loader does, then in lib64
  /// and lib of $CUDNN_HOME, $CUDNN_PATH, $CUDA_HOME, $CUDA_PATH and /usr/local/cuda. Throws
  /// `MissingLibraryError`, which says where it looked. Stays loaded to the end of the program.
  explicit Library(const std::string& file);

  /// Sets `function` to the library's function of this name. Throws `MissingLibraryError` where it
  /// has none: it is of another version.
  template <class Function>
  void bind(Function*& function, const char* name) const {
    function = reinterpret_cast<Function*>(find(name));
  }

 private:
  void* find(const char* name) const;

  std::string file_;
  void* handle_ = nullptr;
};

}  // namespace brim::cuda
