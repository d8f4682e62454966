#include "brim/ops/squeeze_excitation.h"

#include "brim/ops/activation_functors.h"
#include "brim/ops/cpu/few_rows.h"
#include "brim/ops/cpu/image_channels.h"
#include "brim/ops/cpu/register.h"

namespace brim::cpu {
namespace {

// The sizes, which name the axes of weight1 [s,c] and weight2 [c,s].
struct Sizes {
  Sizes(const View& x, int64_t squeezed)
      : images(x.shape[0]), c(x.shape[3]), s(squeezed), image{x.shape[1] * x.shape[2], c} {}
  int64_t size() const { return image.pixels * c; }  ///< of an image, in elements
  int64_t images, c, s;
  ImageSize image;
};

template <class T>
T* data(const View& view) {
  return view.present ? view.as<T>() : nullptr;
}

/// Calls `body(range)` for parts of the columns of a product of so many rows and terms.
template <class Body>
void for_columns(int64_t columns, int64_t rows, int64_t depth, const Body& body) {
  constexpr int64_t kUnit = 16, kGrain = 16384;  // multiplications that repay a second thread
  parallel_for(ceil_div(columns, kUnit), kGrain / (kUnit * rows * depth + 1) + 1,
               [&](int64_t begin, int64_t end) {
                 body(Range{begin * kUnit, std::min(end * kUnit, columns)});
               });
}

/// Images are of S, weights and what there is of each image of what S is computed in.
template <class S>
struct Forward {
  using T = Compute<S>;

  Forward(const KernelCall& call)
      : z(call.in[0], call.in[2].numel()),
        x(data<S>(call.in[0])),
        weight1(data<T>(call.in[1])),
        bias1(data<T>(call.in[2])),
        weight2(data<T>(call.in[3])),
        bias2(data<T>(call.in[4])),
        mean(data<T>(call.out[1])),
        hidden(data<T>(call.out[2])),
        gate(data<T>(call.out[3])) {}

  // The gates of these images.
  void gates(Range images) const {
    const int64_t n = images.begin, count = images.end - n;
    for (int64_t i = n; i < images.end; ++i) average(i);
    for_columns(z.s, count, z.c, [&](Range columns) {
      few_rows::dots<T>({mean + n * z.c, weight1, bias1, hidden + n * z.s, z.s, z.c}, {0, count},
                        columns, functor::Relu());
    });
    for_columns(z.c, count, z.s, [&](Range columns) {
      few_rows::dots<T>({hidden + n * z.s, weight2, bias2, gate + n * z.c, z.c, z.s}, {0, count},
                        columns, functor::Hardsigmoid());
    });
  }

  Sizes z;
  const S* x;
  const T *weight1, *bias1, *weight2, *bias2;
  T *mean, *hidden, *gate;

 private:
  void average(int64_t i) const {
    const S* from = x + i * z.size();
    channel_sums<T>(
        z.image, [=]<class V>(V sum, int64_t at) { return sum + load<V>(from + at); },
        [=, this](int64_t c, double sum) {
          mean[i * z.c + c] = static_cast<T>(sum / static_cast<double>(z.image.pixels));
        });
  }
};

// y = x * gate of an image.
template <class S>
void scale_image(const ImageSize& image, const S* x, const Compute<S>* gate, bool streams, S* y) {
  map_pixels(image, streams, y,
             [=]<class V>(int64_t i, int64_t c) { return load<V>(x + i) * load<V>(gate + c); });
}

template <class S>
void squeeze_excitation(const KernelCall& call, const NoAttributes&) {
  const Forward<S> f(call);
  S* y = call.out[0].as<S>();
  const bool streams = y != f.x && worth_streaming(call.out[0], y);
  const int64_t size = f.z.size();
  for_image_groups(f.z.images, size * static_cast<int64_t>(sizeof(S)), [&](Range images) {
    f.gates(images);
    for (int64_t i = images.begin; i < images.end; ++i)
      scale_image(f.z.image, f.x + i * size, f.gate + i * f.z.c, streams, y + i * size);
  });
}

template <class S>
void scale(const KernelCall& call, const NoAttributes&) {
  const Sizes z(call.in[0], 0);
  const S* x = call.in[0].as<S>();
  const auto* gate = call.in[1].as<Compute<S>>();
  S* y = call.out[0].as<S>();
  const bool streams = y != x && worth_streaming(call.out[0], y);
  // Pixels are shared out, since these may be a few images of a batch.
  const int64_t pixels = z.image.pixels, grain = kImageGrain / std::max<int64_t>(z.c, 1) + 1;
  parallel_for(z.images * pixels, grain, [&](int64_t begin, int64_t end) {
    for (int64_t stop; begin < end; begin = stop) {
      const int64_t i = begin / pixels, at = begin * z.c;
      stop = std::min((i + 1) * pixels, end);
      scale_image({stop - begin, z.c}, x + at, gate + i * z.c, streams, y + at);
    }
  });
}

Sizes backward_sizes(const KernelCall& call) { return {call.in[1], call.in[5].shape[3]}; }

// What the op's backward names d2, d1 and weight1^T d1 / P, of each image: [c], [s], [c].
template <class T>
struct Between {
  Between(ScratchCursor& scratch, const Sizes& z)
      : d2(scratch.take<T>(z.images * z.c)),
        d1(scratch.take<T>(z.images * z.s)),
        shift(scratch.take<T>(z.images * z.c)) {}
  T *d2, *d1, *shift;
};

template <class S>
class Backward {
 public:
  using T = Compute<S>;

  Backward(const KernelCall& call, const Between<T>& between)
      : z_(backward_sizes(call)),
        between_(between),
        dy_(data<S>(call.in[0])),
        x_(data<S>(call.in[1])),
        weight1_(data<T>(call.in[2])),
        weight2_(data<T>(call.in[3])),
        mean_(data<T>(call.in[4])),
        hidden_(data<T>(call.in[5])),
        gate_(data<T>(call.in[6])),
        dx_(data<S>(call.out[0])),
        wants_dx_(call.out[0].present),
        wants_d1_(call.in[3].present),
        streams_(dx_ != dy_ && worth_streaming(call.in[0], dx_)) {}

  void run(const KernelCall& call) const {
    for_image_groups(z_.images, 2 * z_.size() * static_cast<int64_t>(sizeof(S)),
                     [&](Range images) { run(images); });
    weight_gradient(between_.d1, z_.s, mean_, z_.c, data<T>(call.out[1]));
    bias_gradient(between_.d1, z_.s, data<T>(call.out[2]));
    weight_gradient(between_.d2, z_.c, hidden_, z_.s, data<T>(call.out[3]));
    bias_gradient(between_.d2, z_.c, data<T>(call.out[4]));
  }

 private:
  void run(Range images) const {
    const int64_t n = images.begin, count = images.end - n;
    for (int64_t i = n; i < images.end; ++i) gate_gradient(i);
    if (wants_d1_) {
      multiply(between_.d2 + n * z_.c, weight2_, between_.d1 + n * z_.s, count, z_.c, z_.s);
      for (int64_t i = n * z_.s; i < images.end * z_.s; ++i)
        between_.d1[i] = functor::ReluBackward()(between_.d1[i], hidden_[i]);
    }
    if (!wants_dx_) return;
    multiply(between_.d1 + n * z_.s, weight1_, between_.shift + n * z_.c, count, z_.s, z_.c);
    for (int64_t i = n; i < images.end; ++i) input_gradient(i);
  }

  void gate_gradient(int64_t i) const {
    const S *dy = dy_ + i * z_.size(), *x = x_ + i * z_.size();
    channel_sums<T>(
        z_.image,
        [=]<class V>(V sum, int64_t at) { return fma(load<V>(dy + at), load<V>(x + at), sum); },
        [=, this](int64_t c, double sum) {
          between_.d2[i * z_.c + c] =
              functor::HardsigmoidBackward()(static_cast<T>(sum), gate_[i * z_.c + c]);
        });
  }

  void input_gradient(int64_t i) const {
    const S* dy = dy_ + i * z_.size();
    const T* gate = gate_ + i * z_.c;
    T* shift = between_.shift + i * z_.c;
    for (int64_t c = 0; c < z_.c; ++c) shift[c] /= static_cast<T>(z_.image.pixels);
    map_pixels(z_.image, streams_, dx_ + i * z_.size(), [=]<class V>(int64_t at, int64_t c) {
      return fma(load<V>(dy + at), load<V>(gate + c), load<V>(shift + c));
    });
  }

  // c [rows,columns] = a [rows,depth] b [depth,columns].
  void multiply(const T* a, const T* b, T* c, int64_t rows, int64_t depth, int64_t columns) const {
    for_columns(columns, rows, depth, [&](Range range) {
      few_rows::multiply<T>({.a = a,
                             .a_row = depth,
                             .a_step = 1,
                             .b = b,
                             .b_row = columns,
                             .c = c,
                             .c_row = columns,
                             .depth = depth},
                            {0, rows}, range);
    });
  }

  // dw [rows,columns] = the sum over images of g [images,rows]^T by [images,columns].
  void weight_gradient(const T* g, int64_t rows, const T* by, int64_t columns, T* dw) const {
    if (dw == nullptr) return;
    constexpr int64_t kStep = 8;  // rows that are written side by side
    const tiles::Product<T> product{.a = g,
                                    .a_row = 1,
                                    .a_step = rows,
                                    .b = by,
                                    .b_row = columns,
                                    .c = dw,
                                    .c_row = columns,
                                    .depth = z_.images};
    for_columns(rows, columns, z_.images, [&](Range range) {
      for (int64_t i = range.begin; i < range.end; i += kStep)
        few_rows::multiply(product, {i, std::min(i + kStep, range.end)}, {0, columns});
    });
  }

  void bias_gradient(const T* g, int64_t channels, T* db) const {
    if (db == nullptr) return;
    for (int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < z_.images; ++i) sum += static_cast<double>(g[i * channels + c]);
      db[c] = static_cast<T>(sum);
    }
  }

  Sizes z_;
  Between<T> between_;
  const S *dy_, *x_;
  const T *weight1_, *weight2_, *mean_, *hidden_, *gate_;
  S* dx_;
  bool wants_dx_, wants_d1_, streams_;
};

template <class S>
void backward(const KernelCall& call, const NoAttributes&) {
  ScratchCursor scratch(call.scratch);
  Backward<S>(call, {scratch, backward_sizes(call)}).run(call);
}
template <class S>
int64_t backward_scratch(const KernelCall& call, const NoAttributes&) {
  ScratchCursor scratch(nullptr);
  Between<Compute<S>>(scratch, backward_sizes(call));
  return scratch.used();
}

template <class S>
void register_for() {
  constexpr DeviceType kCpu = DeviceType::cpu;
  constexpr Dtype kDtype = dtype_of<S>;
  register_kernel(kernel::squeeze_excitation, kCpu, kDtype, squeeze_excitation<S>);
  register_kernel(kernel::squeeze_excitation_scale, kCpu, kDtype, scale<S>);
  register_kernel(kernel::squeeze_excitation_backward, kCpu, kDtype, backward<S>,
                  backward_scratch<S>);
}

}  // namespace

void register_squeeze_excitation() {
  register_for<float>();
  register_for<double>();
  register_for<BFloat16>();
  register_for<Float16>();
}

}  // namespace brim::cpu
