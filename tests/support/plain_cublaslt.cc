// Where there is no emulated GPU.
#include "brim/tests/support/plain_cublaslt.h"

namespace brim::testing {

bool use_plain_cublaslt() { return false; }

CublasLtTrouble::CublasLtTrouble(const CublasLtTroubles&) {}
CublasLtTrouble::~CublasLtTrouble() = default;

std::vector<std::string> cublaslt_functions() { return {}; }

int64_t products_by(int64_t) { return 0; }

}  // namespace brim::testing
