// cuBLASLt on an emulated GPU, by plain loops on the host, so that brim's own code that calls it
// runs: descriptors, the choice among algorithms, workspaces, whole trainings. It can be told to
// refuse and to fail. Sums are of float or double, in order; it shows nothing of the library's own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace brim::testing {

/// What it is told to do.
struct CublasLtTroubles {
  int64_t unordered = 0;     ///< of the algorithms it proposes, the first: sums in no fixed order
  bool has_none = false;     ///< proposes no algorithm
  bool is_refusing = false;  ///< says that it supports nothing
  std::string failing = {};  ///< a function, "cublasLtMatmul": it fails
};

/// From now on where the GPU is emulated; else does nothing and returns false, and the library is
/// the real one.
bool use_plain_cublaslt();

/// Until it ends. What was chosen before is kept (ops/cuda/gemm.h): ask for other sizes.
class CublasLtTrouble {
 public:
  explicit CublasLtTrouble(const CublasLtTroubles& troubles);
  ~CublasLtTrouble();
  CublasLtTrouble(const CublasLtTrouble&) = delete;
  CublasLtTrouble& operator=(const CublasLtTrouble&) = delete;
};

/// Those whose failure can be seen, by name.
std::vector<std::string> cublaslt_functions();

/// Products so far that ran by the `number`th algorithm of those that were proposed.
int64_t products_by(int64_t number);

}  // namespace brim::testing
