#include "brim/base/parallel.h"
#include "brim/ops/onednn_version.h"

namespace brim::onednn {
namespace {

std::unique_ptr<Primitive> make(const ProductShape& s) {
  using Dims = memory::dims;
  constexpr DataType type = DataType::bf16;
  const memory::desc a({s.m, s.k}, type, s.transpose_a ? Dims{1, s.m} : Dims{s.k, 1}),
      b({s.k, s.n}, type, s.transpose_b ? Dims{1, s.k} : Dims{s.n, 1}),
      y({s.m, s.n}, type, Dims{s.n, 1}), bias({1, s.n}, type, Dims{s.n, 1});
  const auto desc = s.with_bias
                        ? describe<dnnl::matmul>(attributes(), KeepsToScratch(), a, b, bias, y)
                        : describe<dnnl::matmul>(attributes(), KeepsToScratch(), a, b, y);
  if (!desc) return nullptr;
  std::optional<Argument> with;
  if (s.with_bias) with = {DNNL_ARG_BIAS, bias};
  return Primitive::make<dnnl::matmul>(*desc, {DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b},
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
