#include "brim/ops/library_version.h"

#include <dnnl.h>
#include <fmt/format.h>

namespace brim {

std::string library_version() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace brim
