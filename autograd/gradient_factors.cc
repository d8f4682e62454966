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
  const auto make = [&]<class T>(const T* of_a, const T* of_b, T* to) {
    parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        T* row = to + k * columns;
        std::fill_n(row, columns, T(0));
        for (int64_t m = 0; m < rank; ++m) {
          const T factor = of_a[m * rows + k];
          for (int64_t j = 0; j < columns; ++j)
            row[j] = std::fma(factor, of_b[m * columns + j], row[j]);
        }
      }
    });
  };
  if (a.dtype() == Dtype::float64)
    make(a.data<double>(), b.data<double>(), product.data<double>());
  else
    make(a.data<float>(), b.data<float>(), product.data<float>());
  return product;
}

}  // namespace brim::autograd
