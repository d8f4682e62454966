#include "brim/ops/cpu/amx_data.h"

#include "brim/ops/cpu/image_pairs.h"

#ifdef __AVX512BW__

#include <algorithm>
#include <vector>

#include "brim/base/bytes.h"
#include "brim/base/parallel.h"
#include "brim/core/launch.h"
#include "brim/ops/cpu/affordable.h"
#include "brim/ops/cpu/amx.h"

namespace brim::cpu {
namespace {

constexpr int64_t kWidth = amx::kRows, kDeep = 2 * kWidth;
constexpr auto kTileBytes = amx::kRows * amx::kRowBytes;

/// One axis of the images. Place i * stride + a of dx sees through tap t place
/// i + (a + padding - t * dilation) / stride of dy, where that is a whole number: so the places of
/// each remainder a are a sum over taps of their own.
struct Axis {
  int64_t size, taps, stride, padding, dilation;
  int64_t origin = 0;  ///< place of dy where the grid begins
  int64_t reach = 0;   ///< the largest shift

  Axis(int64_t size, int64_t taps, int64_t stride, int64_t padding, int64_t dilation)
      : size(size), taps(taps), stride(stride), padding(padding), dilation(dilation) {
    int64_t end = 0;
    for (int64_t a = 0; a < remainders(); ++a)
      for (int64_t tap = 0; tap < taps; ++tap)
        if (sees(a, tap))
          origin = std::min(origin, place(a, tap)), end = std::max(end, place(a, tap));
    reach = end - origin;
  }

  int64_t remainders() const { return std::min(stride, size); }
  /// Places of dx that leave it.
  int64_t results(int64_t a) const { return ceil_div(size - a, stride); }
  bool sees(int64_t a, int64_t tap) const { return (a + padding - tap * dilation) % stride == 0; }
  /// From the place of the result in the grid.
  int64_t shift(int64_t a, int64_t tap) const { return place(a, tap) - origin; }

 private:
  int64_t place(int64_t a, int64_t tap) const { return (a + padding - tap * dilation) / stride; }
};

/// One image of all pixels, where no window sees more than its own: of rows of a tile, if they fit.
ConvShape as_one_image(ConvShape z) {
  if (!z.is_pointwise()) return z;
  const int64_t pixels = z.pixels(), width = pixels % kWidth == 0 ? kWidth : z.w;
  z.n = 1, z.h = z.p = pixels / width, z.w = z.q = width;
  return z;
}

/// A data gradient as sums over taps of dy, which is copied to a grid with zeros around it.
struct Geometry {
  ConvShape z;
  Axis h, w;
  /// Is dy read where it lies? Pixels far apart would compete for the same lines of a cache.
  bool direct;

  explicit Geometry(const ConvShape& shape)
      : z(as_one_image(shape)),
        h(z.h, z.r, z.stride.h, z.padding.h, z.dilation.h),
        w(z.w, z.s, z.stride.w, z.padding.w, z.dilation.w),
        direct(z.is_pointwise() && z.w == kWidth && z.k % kDeep == 0 && z.k <= kMostDepth) {}

  int64_t rows() const { return h.results(0); }  ///< of dx with one remainder, at the most
  int64_t columns() const { return w.results(0); }
  int64_t grid_columns() const { return columns() + w.reach; }
  int64_t panels() const { return ceil_div(z.k, kDeep); }
  int64_t strips() const { return ceil_div(z.c, kWidth); }

 private:
  static constexpr int64_t kMostDepth = 512;
};

/// A place of the window: which of the weights, and how far its pixel of dy is in the grid.
struct Tap {
  int64_t weight, shift;
};

/// Pixels of dx that leave the same remainders, and see dy through the same taps.
struct Job {
  int64_t first_h, first_w, rows, columns;
  std::vector<Tap> taps;
};

std::vector<Job> jobs_of(const Geometry& g) {
  std::vector<Job> jobs;
  for (int64_t a = 0; a < g.h.remainders(); ++a)
    for (int64_t b = 0; b < g.w.remainders(); ++b) {
      Job job{a, b, g.h.results(a), g.w.results(b), {}};
      for (int64_t r = 0; r < g.z.r; ++r)
        for (int64_t s = 0; s < g.z.s; ++s)
          if (g.h.sees(a, r) && g.w.sees(b, s))
            job.taps.push_back(
                {r * g.z.s + s, g.h.shift(a, r) * g.grid_columns() + g.w.shift(b, s)});
      jobs.push_back(std::move(job));
    }
  return jobs;
}

/// What a thread copies at a time: some images, or some rows of the results of one.
struct Cut {
  int64_t images, rows;   ///< of a unit
  int64_t groups, bands;  ///< of all images, of all rows
  int64_t panel_step;     ///< bytes from the copy of 32 channels to the next
  int64_t slab_bytes;     ///< of a unit's copy

  Cut(const Geometry& g, int64_t threads) {
    const int64_t row = g.grid_columns() * g.panels() * amx::kRowBytes;
    const int64_t image = row * (g.rows() + g.h.reach);
    images = std::clamp<int64_t>(kBytes / image, 1, ceil_div(g.z.n, threads));
    rows = g.rows();
    if (images == 1)
      rows = std::clamp<int64_t>(
          std::min(kBytes / row - g.h.reach, ceil_div(g.rows() * g.z.n, threads)), 1, g.rows());
    groups = ceil_div(g.z.n, images), bands = ceil_div(g.rows(), rows);
    // Tiles at the end reach beyond it; and panels do not compete for the same lines of a cache.
    panel_step = (images * (rows + g.h.reach) * g.grid_columns() + 2 * kWidth + 1) * amx::kRowBytes;
    slab_bytes = g.panels() * panel_step;
    if (g.direct) panel_step = amx::kRowBytes, slab_bytes = 0;
  }
  int64_t units() const { return groups * bands; }

 private:
  static constexpr int64_t kBytes = 512 << 10;
};

/// One of these: how many, and from where.
struct Unit {
  int64_t image, images, row, rows;
};

/// 32 numbers, rounded to the nearest. Such processors have an instruction for it.
inline __m512i narrow_both(Vector<float> low, Vector<float> high) {
  __m512i both;
  asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both) : "v"(low), "v"(high));
  return both;
}

/// The gradient of one convolution.
class AmxData {
 public:
  AmxData(const ConvShape& shape, int64_t threads, void* scratch)
      : g_(shape),
        taps_(shape.r * shape.s),
        threads_(threads),
        cut_(g_, threads),
        cursor_(scratch),
        weights_(cursor_.take<char>(g_.strips() * strip_bytes())),
        slabs_(cursor_.take<char>(threads * cut_.slab_bytes)) {}

  int64_t scratch_bytes() const { return cursor_.used(); }

  /// Of each tap tiles of 32 outputs, in twos, and 16 channels.
  void pack_weights(const BFloat16* weight) const {
    const int64_t strips = g_.strips(), panels = g_.panels();
    parallel_for(strips, 1, [&](int64_t begin, int64_t end) {
      for (int64_t strip = begin; strip < end; ++strip)
        for (int64_t tap = 0; tap < taps_; ++tap)
          for (int64_t panel = 0; panel < panels; ++panel)
            pack_tile(weight + tap * g_.z.c, strip * kWidth, panel * kDeep,
                      weights_ + strip * strip_bytes() + (tap * panels + panel) * kTileBytes);
    });
  }

  void run(const BFloat16* dy, bool adds, BFloat16* dx) {
    dy_ = dy, adds_ = adds, dx_ = dx;
    const std::vector<Job> jobs = jobs_of(g_);
    parallel_pieces(threads_, threads_, [&](int64_t thread, int64_t, int64_t) {
      const Share share{thread, threads_};
      char* slab = slabs_ + thread * cut_.slab_bytes;
      const amx::Scope scope;
      for (int64_t i = share.begin(cut_.units()); i < share.end(cut_.units()); ++i) {
        const Unit unit = unit_of(i);
        if (g_.direct) {
          multiply(unit, reinterpret_cast<const char*>(dy_ + unit.row * kWidth * g_.z.k), jobs[0]);
          continue;
        }
        copy(unit, slab);
        for (const Job& job : jobs) multiply(unit, slab, job);
      }
    });
  }

 private:
  void pack_tile(const BFloat16* weight, int64_t c, int64_t k, char* to) const {
    const int64_t window = g_.z.r * g_.z.s * g_.z.c;
    const auto row = [&](int64_t i) { return i < g_.z.k ? weight + i * window + c : nullptr; };
    for (int64_t i = 0; i < kWidth; ++i, k += 2, to += amx::kRowBytes)
      store(to, PairsOfRows({row(k), row(k + 1)}, std::min(kWidth, g_.z.c - c)).first());
  }

  /// Bytes from the channels of a tile to those of the next pixel.
  int64_t pixel_step() const {
    return g_.direct ? g_.z.k * static_cast<int64_t>(sizeof(BFloat16)) : amx::kRowBytes;
  }
  int64_t strip_bytes() const { return taps_ * g_.panels() * kTileBytes; }

  Unit unit_of(int64_t i) const {
    const int64_t image = i / cut_.bands * cut_.images, row = i % cut_.bands * cut_.rows;
    return {image, std::min(cut_.images, g_.z.n - image), row,
            std::min(cut_.rows, g_.rows() - row)};
  }
  /// Pixels of an image in the copy of a unit.
  int64_t grid(const Unit& unit) const { return (unit.rows + g_.h.reach) * g_.grid_columns(); }

  /// The copy is [panel][image][row][column][32 channels].
  void copy(const Unit& unit, char* slab) const {
    for (int64_t image = 0; image < unit.images; ++image)
      for (int64_t i = 0; i < unit.rows + g_.h.reach; ++i) {
        const int64_t row = unit.row + i + g_.h.origin;
        const bool exists = row >= 0 && row < g_.z.p;
        copy_row(exists ? dy_ + ((unit.image + image) * g_.z.p + row) * g_.z.q * g_.z.k : nullptr,
                 slab + (image * grid(unit) + i * g_.grid_columns()) * amx::kRowBytes);
      }
  }
  void copy_row(const BFloat16* from, char* to) const {
    for (int64_t j = 0; j < g_.grid_columns(); ++j, to += amx::kRowBytes) {
      const int64_t column = j + g_.w.origin;
      const bool exists = from != nullptr && column >= 0 && column < g_.z.q;
      copy_pixel(exists ? from + column * g_.z.k : nullptr, to);
    }
  }
  void copy_pixel(const BFloat16* from, char* to) const {
    constexpr int64_t kAhead = 2048;
    for (int64_t k = 0; k < g_.z.k; k += kDeep, to += cut_.panel_step) {
      const __mmask32 mask = first_of_32(g_.z.k - k);
      if (from != nullptr) __builtin_prefetch(from + k + kAhead);
      _mm512_store_si512(to,
                         from == nullptr ? __m512i{} : _mm512_maskz_loadu_epi16(mask, from + k));
    }
  }

  /// The pixels of a run lie side by side, gaps between rows included; a run is an image, or all of
  /// them where there are no gaps.
  void multiply(const Unit& unit, const char* slab, const Job& job) const {
    const bool dense = g_.h.reach == 0 && g_.w.reach == 0 && job.columns == g_.columns();
    const int64_t rows = std::min(unit.rows, job.rows - unit.row);
    if (rows <= 0) return;
    const int64_t one = (rows - 1) * g_.grid_columns() + job.columns;
    const int64_t length = dense && rows == unit.rows ? unit.images * grid(unit) : one;
    const int64_t runs = length == one ? unit.images : 1;
    // The weights stay in the cache where they are few, else the pixels.
    const auto at_all = [&](int64_t strip_begin, int64_t strip_end) {
      for (int64_t run = 0; run < runs; ++run)
        for (int64_t at = 0; at < length; at += 2 * kWidth)
          for (int64_t strip = strip_begin; strip < strip_end; strip += 2)
            sum({&unit, &job, rows, run, at, std::min(2 * kWidth, length - at), strip}, slab);
    };
    constexpr int64_t kFewBytes = 512 << 10;
    const int64_t step = g_.strips() * strip_bytes() <= kFewBytes ? g_.strips() : 2;
    for (int64_t strip = 0; strip < g_.strips(); strip += step)
      at_all(strip, std::min(strip + step, g_.strips()));
  }

  /// Up to 32 pixels, from `at` of a run on, and 32 channels of each.
  struct Place {
    const Unit* unit;
    const Job* job;
    int64_t rows, run, at, count, strip;
  };

  void sum(const Place& place, const char* slab) const {
    const char* pixels = slab + (place.run * grid(*place.unit) + place.at) * pixel_step();
    const bool two_strips = place.strip + 1 < g_.strips(), two_tiles = place.count > kWidth;
    if (two_strips)
      two_tiles ? sum<2, 2>(place, pixels) : sum<1, 2>(place, pixels);
    else
      two_tiles ? sum<2, 1>(place, pixels) : sum<1, 1>(place, pixels);
  }
  template <int kTiles, int kStrips>
  void sum(const Place& place, const char* pixels) const {
    sum_taps<kTiles, kStrips>(place, pixels);
    constexpr int64_t kRowStep = 2 * amx::kRowBytes;
    alignas(64) float sums[2 * kWidth][2 * kWidth];
    amx::store<0>(sums[0], kRowStep);
    if constexpr (kStrips > 1) amx::store<1>(sums[0] + kWidth, kRowStep);
    if constexpr (kTiles > 1) amx::store<2>(sums[kWidth], kRowStep);
    if constexpr (kTiles > 1 && kStrips > 1) amx::store<3>(sums[kWidth] + kWidth, kRowStep);
    put(place, sums);
  }

  /// Leaves the sums in tiles 0 to 3: [16 pixels][strip].
  template <int kTiles, int kStrips>
  void sum_taps(const Place& place, const char* pixels) const {
    const int64_t panels = g_.panels(), step = pixel_step();
    amx::zero<0>(), amx::zero<1>(), amx::zero<2>(), amx::zero<3>();
    for (const Tap& tap : place.job->taps) {
      const char* from = pixels + tap.shift * step;
      const char* weight =
          weights_ + place.strip * strip_bytes() + tap.weight * panels * kTileBytes;
      for (int64_t i = 0; i < panels; ++i, from += cut_.panel_step, weight += kTileBytes) {
        amx::load<4>(from, step);
        if constexpr (kTiles > 1) amx::load<5>(from + kWidth * step, step);
        amx::load<6>(weight);
        if constexpr (kStrips > 1) amx::load<7>(weight + strip_bytes());
        amx::multiply<0, 4, 6>();
        if constexpr (kStrips > 1) amx::multiply<1, 4, 7>();
        if constexpr (kTiles > 1) amx::multiply<2, 5, 6>();
        if constexpr (kTiles > 1 && kStrips > 1) amx::multiply<3, 5, 7>();
      }
    }
  }

  /// Stores the results of those pixels that are none of the gaps.
  void put(const Place& place, const float (&sums)[2 * kWidth][2 * kWidth]) const {
    const Unit& unit = *place.unit;
    const Job& job = *place.job;
    const int64_t first = place.run * grid(unit) + place.at;
    int64_t image = first / grid(unit), row = first % grid(unit) / g_.grid_columns();
    int64_t column = first % g_.grid_columns();
    for (int64_t i = 0; i < place.count; ++i) {
      if (image < unit.images && row < place.rows && column < job.columns)
        put_pixel(place.strip, sums[i], pixel(job, unit.image + image, unit.row + row, column));
      if (++column < g_.grid_columns()) continue;
      column = 0;
      if (++row == unit.rows + g_.h.reach) row = 0, ++image;
    }
  }
  BFloat16* pixel(const Job& job, int64_t image, int64_t row, int64_t column) const {
    const int64_t h = row * g_.z.stride.h + job.first_h, w = column * g_.z.stride.w + job.first_w;
    return dx_ + ((image * g_.z.h + h) * g_.z.w + w) * g_.z.c;
  }
  void put_pixel(int64_t strip, const float* sums, BFloat16* to) const {
    using V = Vector<float>;
    const int64_t c = strip * kWidth;
    const __mmask32 mask = first_of_32(g_.z.c - c);
    V low = load<V>(sums), high = load<V>(sums + kWidth);
    if (adds_) {
      BFloat16 there[2 * kWidth];
      _mm512_storeu_si512(there, _mm512_maskz_loadu_epi16(mask, to + c));
      low = rounded<BFloat16>(low) + load<V>(there);
      high = rounded<BFloat16>(high) + load<V>(there + kWidth);
    }
    _mm512_mask_storeu_epi16(to + c, mask, narrow_both(low, high));
  }

  Geometry g_;
  int64_t taps_, threads_;
  Cut cut_;
  ScratchCursor cursor_;
  char *weights_, *slabs_;
  const BFloat16* dy_ = nullptr;
  bool adds_ = false;
  BFloat16* dx_ = nullptr;
};

}  // namespace

bool has_amx_data(const ConvShape& shape) {
  if (shape.groups != 1 || std::min(shape.c, shape.k) < kWidth || shape.window() == 0 ||
      shape.pixels() * shape.h * shape.w == 0 || !amx::is_there())
    return false;
  return is_affordable(shape, AmxData(shape, kThreadsOfChoice, nullptr).scratch_bytes());
}

int64_t amx_backward_data_scratch(const ConvShape& shape) {
  return AmxData(shape, num_threads(), nullptr).scratch_bytes();
}

void amx_backward_data(const ConvShape& shape, const BFloat16* dy, const BFloat16* weight,
                       bool adds, BFloat16* dx, void* scratch) {
  AmxData gradient(shape, num_threads(), scratch);
  gradient.pack_weights(weight);
  gradient.run(dy, adds, dx);
}

}  // namespace brim::cpu

#else

namespace brim::cpu {

bool has_amx_data(const ConvShape&) { return false; }
int64_t amx_backward_data_scratch(const ConvShape&) { return 0; }
void amx_backward_data(const ConvShape&, const BFloat16*, const BFloat16*, bool, BFloat16*, void*) {
  check(false, "no matrix unit");
}

}  // namespace brim::cpu

#endif
