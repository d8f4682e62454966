#include "brim/ops/cpu/batch_norm.h"
#include "brim/ops/cpu/channel_sums.h"
#include "brim/ops/cpu/norm_backward.h"
#include "brim/ops/cpu/register.h"

namespace brim::cpu {
namespace {

using kernel::BatchNormAttributes;

/// What the derivative of the activation is taken at: what went into it, found again from x alone
/// or from x and the residual, or y, read.
enum class At { nothing, x, x_and_residual, y };

template <class S>
struct Buffers {
  explicit Buffers(const KernelCall& call)
      : dy(call.in[0].as<S>()),
        x(call.in[1].as<S>()),
        beside(call.in[call.in[6].present ? 6 : 7].as<S>()),
        dx(call.out[0].as<S>()),
        dresidual(call.out[3].as<S>()) {
    // Without x its sums mean nothing and nobody asks for them; anything that can be read will do.
    if (x == nullptr) x = dy;
  }
  const S *dy, *x;
  const S* beside;  ///< y or the residual, as `At` says
  S *dx, *dresidual;
};

/// What the compiler knows of a call, for types that networks are trained in.
template <At kAt, Activation kActivation>
struct Known {
  static constexpr At at = kAt;
  static constexpr Activation activation = kActivation;
};
/// The same of a call of other types, whose loops ask for each vector: they compile once.
struct Asked {
  At at;
  Activation activation;
};

/// g: the gradient of what went into the activation. Form: `Known` or `Asked`.
template <class V, class Form, class S>
inline V gradient(Form form, const NormCoefficients<Compute<S>>& by, const S* dy, V x,
                  const S* beside, int64_t i) {
  const V g = load<V>(dy);
  if (form.at == At::nothing) return g;
  if (form.at == At::y) return activate_backward(form.activation, g, load<V>(beside));
  V z = normalized(x, load<V>(by.mean + i), load<V>(by.scale + i), load<V>(by.shift + i));
  if (form.at == At::x_and_residual) {
    z += load<V>(beside);
    // As y tells, which has been rounded.
    if (form.activation != Activation::hardswish) z = rounded<S>(z);
  }
  return activate_backward(form.activation, g, z);
}

/// Adds `kRows` rows from element `first` to the sums of g and of g * (x - mean); keeps g where it
/// is the residual's gradient.
template <int kRows, class Form, class S>
void add_rows(Form form, const ChannelSums<Compute<S>>& sums, const Buffers<S>& b,
              const NormCoefficients<Compute<S>>& by, int64_t first, int64_t length,
              int64_t width) {
  using T = Compute<S>;
  for_lanes<T>(width, [&]<class V>(int64_t i) {
    V mean = load<V>(by.mean + i), sum_g{}, sum_gx{};
    prefetch_next<kRows>(b.x + first, length, i);
    prefetch_next<kRows>(b.dy + first, length, i);
    if (form.at == At::y || form.at == At::x_and_residual)
      prefetch_next<kRows>(b.beside + first, length, i);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      int64_t j = first + r * length + i;
      V x = load<V>(b.x + j);
      V g = gradient(form, by, b.dy + j, x, b.beside + j, i);
      if (b.dresidual != nullptr) store(b.dresidual + j, g);
      sum_g += g;
      sum_gx = fma(g, x - mean, sum_gx);
    }
    sums.add(i, sum_g, sum_gx);
  });
}

template <class T>
struct Scratch {
  Scratch(void* base, const ChannelRows& rows)
      : cursor(base), forward(cursor, rows), backward(cursor, rows), pieces(cursor.used()) {}
  /// The sums of piece i follow.
  static int64_t bytes_of_sums(const ChannelRows& rows) {
    ScratchCursor one(nullptr);
    ChannelSums<T>(one, rows);
    return one.used();
  }

  ScratchCursor cursor;
  NormCoefficients<T> forward;
  GradientCoefficients<T> backward;
  int64_t pieces;
};

template <class S>
int64_t backward_scratch(const KernelCall& call, const BatchNormAttributes&) {
  using T = Compute<S>;
  ChannelRows rows(call.in[0]);
  return Scratch<T>(nullptr, rows).pieces + rows.pieces() * Scratch<T>::bytes_of_sums(rows);
}

template <class S, class Form>
class Backward {
  using T = Compute<S>;

 public:
  Backward(Form form, const KernelCall& call, const BatchNormAttributes& attributes)
      : form_(form),
        call_(call),
        attributes_(attributes),
        rows_(call.in[0]),
        scratch_(call.scratch, rows_),
        buffers_(call) {}

  void run() {
    bool x = call_.out[0].present, weight = call_.out[1].present, bias = call_.out[2].present;
    bool residual = call_.out[3].present;
    if (call_.in[3].present && call_.in[2].present)
      scratch_.forward.set(rows_, call_.in[2], call_.in[5], call_.in[3], call_.in[4],
                           attributes_.epsilon);
    else
      set_mean_only();
    if (weight || bias || residual || (x && attributes_.training)) {
      sum();
      finish_sums();
    }
    if (!x) return;
    // What the first sweep stored has gone through the activation already.
    if (residual)
      write(Known<At::nothing, Activation::none>(), buffers_.dresidual);
    else
      write(form_, buffers_.dy);
  }

 private:
  ChannelSums<T> sums_of(int64_t piece) {
    ScratchCursor cursor(static_cast<char*>(call_.scratch) + scratch_.pieces +
                         piece * Scratch<T>::bytes_of_sums(rows_));
    return ChannelSums<T>(cursor, rows_);
  }
  int64_t pieces() const { return std::min(rows_.pieces(), rows_.count); }

  // Without the weight nobody asks for more than sums.
  void set_mean_only() {
    bool present = call_.in[3].present;
    for (int64_t c = 0; c < rows_.channels; ++c)
      scratch_.forward.mean[c] = present ? static_cast<T>(call_.in[3].as<double>()[c]) : T(0);
    rows_.repeat(scratch_.forward.mean);
  }

  void sum() {
    parallel_pieces(rows_.count, pieces(), [&](int64_t piece, int64_t first, int64_t last) {
      ChannelSums<T> sums = sums_of(piece);
      sums.clear(rows_);
      for_row_groups<T>(
          rows_, first, last,
          [&](auto group, int64_t first_of_group, int64_t width) {
            add_rows<group()>(form_, sums, buffers_, scratch_.forward, first_of_group, rows_.length,
                              width);
          },
          [&] { sums.flush(rows_); });
    });
  }

  // Adds the pieces up in the first one, in order.
  ChannelSums<T> total() {
    ChannelSums<T> all = sums_of(0);
    if (rows_.count == 0) all.clear(rows_);
    for (int64_t piece = 1; piece < pieces(); ++piece) {
      ChannelSums<T> one = sums_of(piece);
      for (int64_t c = 0; c < rows_.channels; ++c) {
        all.total_first[c] += one.total_first[c];
        all.total_second[c] += one.total_second[c];
      }
    }
    return all;
  }

  void finish_sums() {
    const ChannelSums<T> sums = total();
    finish_norm_sums(rows_, sums.total_first, sums.total_second,
                     {call_.in[2], call_.in[3], call_.in[4], attributes_.epsilon}, call_.out[1],
                     call_.out[2], scratch_.backward);
  }

  template <class From>
  void write(From from, const S* dy) {
    // Where dx takes the place of the gradient, its lines are in the cache.
    const bool streaming = buffers_.dx != dy && worth_streaming(rows_, buffers_.dx);
    for_rows_backwards(rows_, [=, b = buffers_, by = scratch_.forward, to = scratch_.backward,
                               training = attributes_.training](int64_t first, int64_t width) {
      put_row(b.dx, first, width, streaming, [&]<class V>(int64_t i) {
        int64_t j = first + i;
        prefetch_ahead(b.x + j);
        prefetch_ahead(dy + j);
        V x = load<V>(b.x + j), scale = load<V>(by.scale + i);
        V value = scale * gradient(from, by, dy + j, x, b.beside + j, i);
        if (training)
          value =
              tilted(value, x - load<V>(by.mean + i), load<V>(to.slope + i), load<V>(to.level + i));
        return value;
      });
    });
  }

  [[no_unique_address]] Form form_;
  const KernelCall& call_;
  const BatchNormAttributes& attributes_;
  ChannelRows rows_;
  Scratch<T> scratch_;
  Buffers<S> buffers_;
};

At at_of(const KernelCall& call, Activation activation) {
  if (activation == Activation::none) return At::nothing;
  // The y of hardswish does not tell.
  if (call.in[6].present && activation != Activation::hardswish) return At::y;
  return call.in[7].present ? At::x_and_residual : At::x;
}

/// Calls `run(Known<kAt, activation>())`: of the activations that there are at `kAt`.
template <At kAt, class Run>
void with_known(Activation activation, const Run& run) {
  if (activation == Activation::relu) return run(Known<kAt, Activation::relu>());
  if (activation == Activation::relu6) return run(Known<kAt, Activation::relu6>());
  if constexpr (kAt != At::y) run(Known<kAt, Activation::hardswish>());
}

template <class S>
void backward(const KernelCall& call, const BatchNormAttributes& attributes) {
  const auto run = [&](auto form) { Backward<S, decltype(form)>(form, call, attributes).run(); };
  const Asked form{at_of(call, attributes.activation), attributes.activation};
  if constexpr (dtype_of<S> == Dtype::float64 || dtype_of<S> == Dtype::float16) {
    run(form);
  } else {
    switch (form.at) {
      case At::nothing:
        return run(Known<At::nothing, Activation::none>());
      case At::x:
        return with_known<At::x>(form.activation, run);
      case At::x_and_residual:
        return with_known<At::x_and_residual>(form.activation, run);
      case At::y:
        return with_known<At::y>(form.activation, run);
    }
  }
}

}  // namespace

void register_batch_norm_backward() {
  auto add = []<class S>(S) {
    register_kernel(kernel::batch_norm_backward, DeviceType::cpu, dtype_of<S>, backward<S>,
                    backward_scratch<S>);
  };
  add(float());
  add(double());
  add(BFloat16());
  add(Float16());
}

}  // namespace brim::cpu
