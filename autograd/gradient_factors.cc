#include "brim/autograd/gradient_factors.h"

#include <algorithm>
#include <cmath>

#include "brim/base/parallel.h"
#include "brim/core/transfer.h"
#include "brim/memory/staging_scope.h"

namespace brim::autograd {

Tensor product_on_host(const GradientFactors& factors, const Shape& shape) {
  if (factors.a.device().is_meta()) return {};
  const Tensor a = staged_on_host(factors.a), b = staged_on_host(factors.b);
  const int64_t rows = shape[0], columns = numel(shape) / rows, rank = a.numel() / rows;
  memory::StagingScope staging;
  Tensor product = empty(shape, {.dtype = a.dtype()});
  visit_dtype(a.dtype(), [&]<class T>() {
    if constexpr (std::is_floating_point_v<T>)
      parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
        for (int64_t k = begin; k < end; ++k) {
          T* row = product.data<T>() + k * columns;
          std::fill_n(row, columns, T(0));
          for (int64_t m = 0; m < rank; ++m)
            for (int64_t j = 0; j < columns; ++j)
              row[j] = std::fma(a.data<T>()[m * rows + k], b.data<T>()[m * columns + j], row[j]);
        }
      });
  });
  return product;
}

}  // namespace brim::autograd
