// What differs between oneDNN 2 and 3: how an operation is described. Nothing else asks for the
// library's version. Includes oneDNN: for ops/onednn*.cc alone.
#pragma once

#include <dnnl_version.h>

#include <dnnl.hpp>
#include <optional>

#include "brim/ops/onednn_primitive.h"

namespace brim::onednn {

template <class Operation>
using Description = typename Operation::primitive_desc;

/// Describes an operation; `arguments` are the library's own, without engine and attributes. The
/// description is of the library's first implementation until `accept(description)` moves it on:
/// nothing where that finds none and says false.
template <class Operation, class Accept, class... Arguments>
std::optional<Description<Operation>> describe(const dnnl::primitive_attr& attributes,
                                               const Accept& accept,
                                               const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  Description<Operation> made(engine(), arguments..., attributes);
#else
  // Read when the next implementation is asked for, so it must outlive `accept`.
  const typename Operation::desc operation(arguments...);
  Description<Operation> made(operation, attributes, engine());
#endif
  if (!accept(made)) return {};
  return made;
}

/// The same for a gradient, whose description wants that of the operation.
template <class Gradient, class Forward, class Accept, class... Arguments>
std::optional<Description<Gradient>> describe_gradient(const Forward& forward, const Accept& accept,
                                                       const Arguments&... arguments) {
#if DNNL_VERSION_MAJOR >= 3
  Description<Gradient> made(engine(), arguments..., forward, attributes());
#else
  const typename Gradient::desc gradient(arguments...);
  Description<Gradient> made(gradient, attributes(), engine(), forward);
#endif
  if (!accept(made)) return {};
  return made;
}

}  // namespace brim::onednn
