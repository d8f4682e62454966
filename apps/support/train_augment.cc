#include "brim/apps/support/train_augment.h"

#include <array>
#include <charconv>
#include <string_view>

#include "brim/base/error.h"
#include "brim/apps/support/flag_values.h"

namespace brim::apps {
namespace {

data::ColorJitter parse_color_jitter(std::string_view text) {
  std::array<float, 4> values{};
  std::string_view rest = text;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string_view part = rest.substr(0, rest.find(','));
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), values[i]);
    const bool last = part.size() == rest.size();
    expect<ValueError>(
        error == std::errc() && end == part.data() + part.size() &&
            last == (i + 1 == values.size()),
        "flags", "--color-jitter: expected four numbers, as in 0.4,0.4,0.4,0.1, got '{}'", text);
    if (!last) rest.remove_prefix(part.size() + 1);
  }
  data::ColorJitter jitter{values[0], values[1], values[2], values[3]};
  data::check_color_jitter(jitter);
  return jitter;
}

}  // namespace

void add_augment_flags(App& app, AugmentFlags& f) {
  app.add_option("--color-jitter", f.color_jitter_text,
                 "random brightness, contrast, saturation and hue: how far each may go, B,C,S,H")
      .type_name("B,C,S,H")
      .check(parsed_by([](const std::string& text) { parse_color_jitter(text); }));
  app.add_option("--random-erasing", f.random_erasing,
                 "share of the images that lose a random rectangle")
      .check(number({.most = 1}));
  app.add_option("--mixup", f.mix.mixup,
                 "blend images and their labels in pairs, with shares from Beta(ALPHA, ALPHA)")
      .check(positive_number())
      .type_name("ALPHA");
  app.add_option("--cutmix", f.mix.cutmix,
                 "exchange rectangles of images, and labels with them; with --mixup, one of both")
      .check(positive_number())
      .type_name("ALPHA");
}

void check_augment_flags(AugmentFlags& f, const std::string& data) {
  if (!f.color_jitter_text.empty()) f.color_jitter = parse_color_jitter(f.color_jitter_text);
  check_mix(f.mix);
  if (data != "synthetic") return;
  for (auto [name, given] : {std::pair("--color-jitter", !f.color_jitter_text.empty()),
                             std::pair("--random-erasing", f.random_erasing > 0)})
    expect<ValueError>(!given, "flags", "{} does nothing with --data synthetic: no image is read",
                       name);
}

data::Augment with_flags(data::Augment augment, const AugmentFlags& f) {
  augment.color_jitter = f.color_jitter;
  augment.random_erasing.probability = f.random_erasing;
  return augment;
}

}  // namespace brim::apps
