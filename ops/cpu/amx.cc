#include "brim/ops/cpu/amx.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "brim/ops/onednn.h"

namespace brim::cpu::amx {

bool is_there() {
  // The system keeps tiles for processes that asked to use them.
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool allowed =
      onednn::has_tiles() && syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
  return allowed;
}

}  // namespace brim::cpu::amx
