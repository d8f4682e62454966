#include "brim/base/parallel.h"
#include "brim/ops/onednn_primitive.h"

namespace brim::onednn {
namespace {

std::unique_ptr<Primitive> make(const ProductShape& s) {
  using Dims = memory::dims;
  constexpr DataType type = DataType::bf16;
  const memory::desc a({s.m, s.k}, type, s.transpose_a ? Dims{1, s.m} : Dims{s.k, 1}),
      b({s.k, s.n}, type, s.transpose_b ? Dims{1, s.k} : Dims{s.n, 1}),
      y({s.m, s.n}, type, Dims{s.n, 1}), bias({1, s.n}, type, Dims{s.n, 1});
  const auto product =
      s.with_bias ? dnnl::matmul::desc(a, b, bias, y) : dnnl::matmul::desc(a, b, y);
  dnnl::matmul::primitive_desc desc(product, attributes(), engine());
  if (!accept(desc)) return nullptr;
  std::optional<Argument> with;
  if (s.with_bias) with = {DNNL_ARG_BIAS, bias};
  return Primitive::make<dnnl::matmul>(desc, {DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b},
                                       {DNNL_ARG_DST, y}, with, 1, b);
}

using Key = std::array<int64_t, 7>;

}  // namespace

PrimitivePtr find_product(const ProductShape& shape) {
  static auto* cache = new Cache<Key>;
  const Key key{shape.m,           shape.n,         shape.k,      shape.transpose_a,
                shape.transpose_b, shape.with_bias, num_threads()};
  return cache->find(key, [&] { return make(shape); });
}

}  // namespace brim::onednn
