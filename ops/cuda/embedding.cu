// embedding and its gradient. An index outside the table makes its row NaN and gets no gradient:
// nothing here can throw. The gradient wants the places that name a row, in order: a merge sort,
// of n log(n)^2 steps over n indices, in scratch for two numbers an index and one a row.
#include <algorithm>
#include <limits>
#include <utility>

#include "brim/core/cuda/compute.cuh"
#include "brim/core/cuda/strided.cuh"
#include "brim/ops/cuda/register.h"
#include "brim/ops/embedding.h"

namespace brim::cuda {
namespace {

/// int64 or int32.
struct Indices {
  const int64_t* wide;
  const int32_t* narrow;

  explicit Indices(const View& view)
      : wide(view.dtype == Dtype::int64 ? view.as<int64_t>() : nullptr),
        narrow(wide == nullptr ? view.as<int32_t>() : nullptr) {}
  __device__ int64_t operator[](int64_t i) const { return wide != nullptr ? wide[i] : narrow[i]; }
};

template <class S>
struct CopyRows {
  Indices indices;
  int64_t rows, width;
  const S* weight;
  S* y;
  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t row = indices[at.of[0] / width];
    y[at.of[0]] = row >= 0 && row < rows
                      ? weight[row * width + at.of[0] % width]
                      : round_to<S>(std::numeric_limits<Compute<S>>::quiet_NaN());
  }
};

template <class S>
void embedding(const KernelCall& call, const NoAttributes&) {
  const Shape& weight = call.in[1].shape;
  for_each_element(call, call.out[0].numel(),
                   CopyRows<S>{Indices(call.in[0]), weight[0], weight[1], call.in[1].as<S>(),
                               call.out[0].as<S>()},
                   "embedding");
}

/// Places in the order of their indices, and equal ones as they come.
struct SortedPlaces {
  Indices indices;
  const int64_t* places;  // or null: as they come

  __device__ int64_t place(int64_t i) const { return places == nullptr ? i : places[i]; }
  /// The first of [begin, end) whose index is above `row`, or, where `also_equal`, not below it.
  __device__ int64_t first_after(int64_t row, bool also_equal, int64_t begin, int64_t end) const {
    while (begin < end) {
      const int64_t middle = begin + (end - begin) / 2, index = indices[place(middle)];
      if (index > row || (also_equal && index == row))
        end = middle;
      else
        begin = middle + 1;
    }
    return begin;
  }
};

/// Merges neighbouring runs, which are sorted: each place moves by as many of the other run as go
/// before it. Of equal ones the left run's go first.
struct MergeRuns {
  SortedPlaces from;
  int64_t* to;
  int64_t run, count;
  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t i = at.of[0], begin = i / run / 2 * 2 * run;
    const int64_t middle = std::min(begin + run, count), end = std::min(middle + run, count);
    const int64_t place = from.place(i), row = from.indices[place];
    const bool left = i < middle;
    const int64_t others = left ? from.first_after(row, true, middle, end) - middle
                                : from.first_after(row, false, begin, middle) - middle;
    to[i + others] = place;
  }
};

/// Where the places of each row start; the last is their end.
struct FindStarts {
  SortedPlaces sorted;
  int64_t count;
  int64_t* starts;
  __device__ void operator()(const Offsets<1>& at) const {
    starts[at.of[0]] = sorted.first_after(at.of[0], true, 0, count);
  }
};

struct Places {
  int64_t *sorted, *other, *starts;

  Places(ScratchCursor& cursor, int64_t rows, int64_t count)
      : sorted(cursor.take<int64_t>(count)),
        other(cursor.take<int64_t>(count)),
        starts(cursor.take<int64_t>(rows + 1)) {}

  void fill(const KernelCall& call, const Indices& indices, int64_t rows, int64_t count) {
    const int64_t* from = nullptr;
    int64_t run = 1;
    do {
      for_each_element(call, count, MergeRuns{{indices, from}, other, run, count}, "embedding");
      std::swap(sorted, other);
      from = sorted;
    } while ((run *= 2) < count);
    for_each_element(call, rows + 1, FindStarts{{indices, sorted}, count, starts}, "embedding");
  }
};

int64_t backward_scratch(const KernelCall& call, const EmbeddingOptions&) {
  ScratchCursor cursor(nullptr);
  Places(cursor, call.out[0].shape[0], call.in[1].numel());
  return cursor.used();
}

/// In double, in the order of the places.
template <class S>
struct SumRows {
  const int64_t *places, *starts;
  int64_t width, padding;  // -1 for none
  const S* dy;
  S* dweight;
  __device__ void operator()(const Offsets<1>& at) const {
    const int64_t row = at.of[0] / width, column = at.of[0] % width;
    double sum = 0;
    if (row != padding)
      for (int64_t i = starts[row]; i < starts[row + 1]; ++i)
        sum += static_cast<double>(widen(dy[places[i] * width + column]));
    dweight[at.of[0]] = round_to<S>(static_cast<Compute<S>>(sum));
  }
};

template <class S>
void embedding_backward(const KernelCall& call, const EmbeddingOptions& options) {
  const View &indices = call.in[1], &dweight = call.out[0];
  const int64_t rows = dweight.shape[0];
  ScratchCursor cursor(call.scratch);
  Places places(cursor, rows, indices.numel());
  places.fill(call, Indices(indices), rows, indices.numel());
  for_each_element(
      call, dweight.numel(),
      SumRows<S>{places.sorted, places.starts, dweight.shape[1], options.padding_index.value_or(-1),
                 call.in[0].as<S>(), dweight.as<S>()},
      "embedding_backward");
}

template <class S>
void register_for() {
  register_kernel(kernel::embedding, DeviceType::cuda, dtype_of<S>, embedding<S>);
  register_kernel(kernel::embedding_backward, DeviceType::cuda, dtype_of<S>, embedding_backward<S>,
                  backward_scratch);
}

}  // namespace

void register_embedding() {
  register_for<float>();
  register_for<double>();
  register_for<Float16>();
  register_for<BFloat16>();
}

}  // namespace brim::cuda
