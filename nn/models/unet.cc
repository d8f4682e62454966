#include "brim/nn/models/unet.h"

#include <string>

#include "brim/nn/models/concat_channels.h"
#include "brim/ops/pad.h"

namespace brim::nn {
namespace {

// The rule of the paper.
ConvOptions convolution() {
  return {.kernel = 3, .padding = 1, .bias = false, .weight_init = init::kaiming_normal()};
}

int64_t channels_of(const UNetOptions& options, int level) { return options.channels << level; }

// Below and on the right, where halving has dropped a row or a column.
Tensor padded_to(Tensor x, int64_t height, int64_t width, Where where) {
  int64_t rows = height - x.size(1), columns = width - x.size(2);
  if (rows == 0 && columns == 0) return x;
  return pad(std::move(x), {{}, {0, rows}, {0, columns}, {}}, {}, where);
}

}  // namespace

DoubleConv::DoubleConv(int64_t in, int64_t hidden, int64_t out)
    : conv0_(in, hidden, convolution()),
      bn1_(hidden),
      conv3_(hidden, out, convolution()),
      bn4_(out) {
  register_modules({{"0", conv0_}, {"1", bn1_}, {"3", conv3_}, {"4", bn4_}});
}

Tensor DoubleConv::forward(Tensor x) {
  PendingNorm hidden = bn1_.pending(conv0_.for_norm(std::move(x)), Activation::relu);
  return bn4_(conv3_.for_norm(std::move(hidden)), {.activation = Activation::relu});
}

UNet::UNet(const UNetOptions& options)
    : inc_(options.in, options.channels, options.channels),
      outc_(options.channels, options.classes, {.weight_init = init::kaiming_normal()}) {
  expect<ValueError>(options.depth > 0, "UNet", "expected a depth of at least 1, got {}",
                     options.depth);
  register_modules({{"inc", inc_}, {"pool", pool_}});
  int64_t in = options.channels;
  for (int level = 1; level <= options.depth; ++level) {
    int64_t out = channels_of(options, level);
    if (options.bilinear && level == options.depth) out /= 2;
    downs_.push_back(&register_module("down" + std::to_string(level),
                                      std::make_unique<DoubleConv>(in, out, out)));
    in = out;
  }
  for (int level = options.depth - 1; level >= 0; --level) {
    int64_t out = channels_of(options, level);
    if (options.bilinear && level > 0) out /= 2;
    ups_.push_back(add_up(options, level, in, out));
    in = out;
  }
  register_module("outc", outc_);
}

UNet::Level UNet::add_up(const UNetOptions& options, int level, int64_t in, int64_t out) {
  std::string number = std::to_string(options.depth - level);
  int64_t skip = channels_of(options, level);
  Level made{};
  if (options.bilinear)
    made.up = &register_module(
        "up" + number, std::make_unique<Upsample>(InterpolateOptions{
                           .scale = 2, .mode = InterpolateMode::bilinear, .align_corners = true}));
  else
    made.up = &register_module("up" + number,
                               std::make_unique<ConvTranspose2d>(
                                   in, skip, ConvTransposeOptions{.kernel = 2, .stride = 2}));
  made.conv = &register_module("conv" + number, std::make_unique<DoubleConv>(2 * skip, skip, out));
  return made;
}

Tensor UNet::forward(Tensor x) {
  std::vector<Tensor> skips;
  x = inc_(std::move(x));
  for (Module* down : downs_) {
    skips.push_back(x);
    x = (*down)(pool_(std::move(x)));
  }
  for (const Level& level : ups_) {
    Tensor skip = std::move(skips.back());
    skips.pop_back();
    x = (*level.up)(std::move(x));
    x = padded_to(std::move(x), skip.size(1), skip.size(2), where());
    x = concat_channels(where(), std::move(skip), std::move(x));
    x = (*level.conv)(std::move(x));
  }
  return outc_(std::move(x));
}

}  // namespace brim::nn
