#include "brim/core/dtype.h"

namespace brim {

std::string_view to_string(Dtype dtype) {
  switch (dtype) {
    case Dtype::float32:
      return "float32";
    case Dtype::float64:
      return "float64";
    case Dtype::float16:
      return "float16";
    case Dtype::bfloat16:
      return "bfloat16";
    case Dtype::int8:
      return "int8";
    case Dtype::uint8:
      return "uint8";
    case Dtype::int32:
      return "int32";
    case Dtype::int64:
      return "int64";
    case Dtype::boolean:
      return "bool";
  }
  raise<InternalError>("dtype", "unknown dtype {}", static_cast<int>(dtype));
}

int64_t size_of(Dtype dtype) {
  return visit_dtype(dtype, []<class T>() { return static_cast<int64_t>(sizeof(T)); });
}

double epsilon(Dtype dtype) {
  switch (dtype) {
    case Dtype::float64:
      return 0x1.0p-52;
    case Dtype::float32:
      return 0x1.0p-23;
    case Dtype::float16:
      return 0x1.0p-10;
    case Dtype::bfloat16:
      return 0x1.0p-7;
    default:
      return 0;
  }
}

}  // namespace brim
