// The programs on folders of pictures as people have them: files that are passed over, damaged or
// turned by EXIF, folders that change between two runs.
#include <filesystem>
#include <fstream>

#include "brim/nn/model_card.h"
#include "brim/nn/models/registry.h"
#include "brim/nn/weights.h"
#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/exif_bytes.h"
#include "brim/tests/support/pictures.h"
#include "brim/tests/support/small_datasets.h"

using namespace brim::testing;
namespace fs = std::filesystem;

namespace {

struct Place {
  TempFolder folder;
  Place() { write_pictures(folder, 4); }
  std::string data() const { return " --size 32 --data " + folder.path() + kQuick; }
  std::string file(const std::string& name) const { return folder.path() + "/" + name; }
};

int64_t count(const std::string& text, const std::string& part) {
  int64_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++found;
  return found;
}

Finished infer(const std::string& arguments) {
  return run_command("apps/infer --threads 1 " + arguments);
}

/// A picture, taller than wide, that is not the same any other way up.
constexpr int kWidth = 24, kHeight = 40;
std::vector<uint8_t> drawn(int seed) {
  std::vector<uint8_t> pixels = smooth_picture(kWidth, kHeight);
  for (size_t i = 0; i < pixels.size(); i += static_cast<size_t>(seed) + 2) pixels[i] ^= 0x40;
  return pixels;
}

std::vector<uint8_t> plain_png(int seed) {
  return encode_png({.width = kWidth, .height = kHeight}, drawn(seed));
}

/// As it is stored where it is to be turned clockwise to be seen, with a tag that says so.
std::vector<uint8_t> tagged_png(int seed) {
  return with_exif_chunk(plain_png(seed), exif_block(6), /*at_end=*/false);
}

/// As it is then seen.
std::vector<uint8_t> turned_png(int seed) {
  const std::vector<uint8_t> stored = drawn(seed);
  std::vector<uint8_t> seen;
  for (int y = 0; y < kWidth; ++y)
    for (int x = 0; x < kHeight; ++x) {
      const auto at = stored.begin() + 3 * ((kHeight - 1 - x) * kWidth + y);
      seen.insert(seen.end(), at, at + 3);
    }
  return encode_png({.width = kHeight, .height = kWidth}, seen);
}

}  // namespace

TEST_CASE("what is passed over is said in one line a split, and so are classes without images") {
  Place place;
  for (const char* name : {"train/cat/a.webp", "train/dog/b.webp", "train/cat/c.gif",
                           "train/cat/.hidden.gif", "val/cat/d.bmp"})
    place.folder.write(name, jpeg_picture(1));
  place.folder.write("train/cat/deep/e.JFIF", jpeg_picture(2));
  place.folder.write("train/eel/1.jpg", jpeg_picture(3));
  Finished run = train(place.data());
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  CHECK(run.out.find("10 images, 8 to validate") != std::string::npos);
  const std::string split = "note: passed over in '" + place.folder.path();
  CHECK(run.out.find(split + "/train': 3 files: 2 .webp, 1 .gif\n") != std::string::npos);
  CHECK(run.out.find(split + "/val': 1 file: 1 .bmp\n") != std::string::npos);
  CHECK(run.out.find("/val': 1 of 3 classes has no image: 'eel'\n") != std::string::npos);
  CHECK(count(run.out, "note: ") == 3);
  CHECK(train(place.data() + " --quiet").out.empty());
  CHECK(run_command(kPlan + "--model resnet20 --batch 4 --size 32 --threads 1 --data " +
                    place.folder.path())
            .out.find(split) != std::string::npos);

  fs::create_symlink("/no/where", place.file("train/dog/lost.jpg"));
  check_error(place.data(), "train/dog/lost.jpg' is a link that leads nowhere");
}

TEST_CASE("each image that is skipped is named, once") {
  Place place;
  for (const char* name : {"train/cat/1.jpg", "train/dog/2.jpg", "val/dog/3.jpg"})
    place.folder.write(name, Bytes{1, 2, 3});
  Finished run = train(place.data() + " --epochs 3 --skip-bad-images");
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  CHECK(count(run.out, "skipped: ") == 3);
  for (const char* name : {"train/cat/1.jpg", "train/dog/2.jpg", "val/dog/3.jpg"})
    CHECK(count(run.out, name) == 1);
  CHECK(run.out.find("3 bad images were skipped") != std::string::npos);
}

TEST_CASE("with --check-images all bad pictures are named before training, or left out") {
  Place place;
  Bytes damaged = jpeg_picture(5);
  damaged.resize(damaged.size() - 40);
  place.folder.write("train/cat/1.jpg", damaged);
  place.folder.write("train/dog/2.jpg", Bytes{});
  place.folder.write("val/dog/3.jpg", Bytes{1, 2, 3});
  const std::vector<std::string> names{"train/cat/1.jpg", "train/dog/2.jpg", "val/dog/3.jpg"};
  Finished run = train(place.data() + " --check-images");
  CHECK(run.code == 1);
  CHECK(run.out.empty());
  for (const std::string& name : names) CHECK(count(run.err, name) == 1);
  CHECK(count(run.err, "\n") == 4);
  CHECK(run.err.find("train: check-images: 3 of the 16 images of " + place.folder.path() +
                     " cannot be read") != std::string::npos);

  run = train(place.data() + " --epochs 2 --check-images --skip-bad-images");
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  CHECK(run.out.find("6 images, 7 to validate") != std::string::npos);
  CHECK(count(run.out, "left out: ") == 3);
  for (const std::string& name : names) CHECK(count(run.out, name) == 1);
  CHECK(run.out.find("3 bad images were skipped") != std::string::npos);
  check_error("--data shapes --check-images", "--check-images does nothing with --data shapes");
}

TEST_CASE("a checkpoint knows its classes and its pictures") {
  Place place;
  TempFolder kept;
  auto arguments = [&](const std::string& name) {
    return place.data() + " --steps 2 --checkpoint " + kept.path() + "/" + name + " ";
  };
  auto check_refused = [&](const std::string& name, const std::string& more,
                           const std::string& text) {
    check_error(arguments(name) + "--resume" + more, text);
  };
  REQUIRE(train(arguments("a")).code == 0);
  REQUIRE(train(arguments("b") + "--check-images").code == 0);
  REQUIRE(train(arguments("a") + "--resume").code == 0);
  // Where they lie does not matter.
  TempFolder elsewhere;
  fs::copy(place.folder.path(), elsewhere.path(), fs::copy_options::recursive);
  CHECK(train(" --size 32 --data " + elsewhere.path() + kQuick + " --steps 2 --checkpoint " +
              kept.path() + "/a --resume")
            .code == 0);

  auto rename = [&](const std::string& from, const std::string& to) {
    fs::rename(place.file(from), place.file(to));
  };
  for (const char* split : {"train/", "val/"})
    rename(split + std::string("cat"), split + std::string("eel"));
  check_refused("a", "", "its list of classes is \"cat, dog\", but \"dog, eel\" here");
  for (const char* split : {"train/", "val/"})
    rename(split + std::string("eel"), split + std::string("cat"));
  rename("train/cat/1.jpg", "train/cat/11.jpg");
  check_refused("a", "", "its list of training images is \"8, their names ");
  rename("train/cat/11.jpg", "train/cat/1.jpg");
  rename("val/cat/1.jpg", "val/cat/11.jpg");
  check_refused("a", "", "its list of validation images is ");
  rename("val/cat/11.jpg", "val/cat/1.jpg");
  place.folder.write("train/cat/1.jpg", jpeg_picture(77));
  CHECK(train(arguments("a") + "--resume").code == 0);
  CHECK(train(arguments("b") + "--resume").code == 0);  // nobody asked
  check_refused("b", " --check-images", "its contents of images is ");
  check_refused("a", " --no-exif", "its orientation is \"that of EXIF (unless --no-exif)\"");
}

TEST_CASE("starting from a model of other classes is said") {
  Place place;
  auto initial = brim::nn::make_model("resnet20", {.classes = 2, .seed = 7});
  auto said = [&](const std::vector<std::string>& classes, const std::string& more) {
    brim::nn::save_weights(*initial, place.file("init"), {.model = "resnet20", .classes = classes});
    Finished run = train(place.data() + more + " --init " + place.file("init"));
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    return run.out;
  };
  const std::string other = "was trained for other classes: its class ";
  CHECK(contains(said({"cat", "hound"}, ""), other + "1 is 'hound', here it is 'dog'"));
  CHECK(contains(said({"dog", "cat"}, ""), other + "0 is 'dog', here it is 'cat'"));
  CHECK_FALSE(contains(said({"cat", "dog"}, ""), other));
  CHECK_FALSE(contains(said({}, ""), other));
  CHECK_FALSE(contains(said({"cat", "hound"}, " --new-head"), other));
  said({"cat", "dog"}, "");
  Finished pruned = run_command("apps/prune --op-times nominal --to ratio=0.2 --weights " +
                                place.file("init") + place.data());
  CAPTURE(pruned.err);
  CHECK_FALSE(contains(pruned.out, other));  // these are the same
  said({"cat", "hound"}, "");
  pruned = run_command("apps/prune --op-times nominal --to ratio=0.2 --weights " +
                       place.file("init") + place.data());
  CHECK(contains(pruned.out, other));
}

TEST_CASE("pictures are trained on as EXIF says, unless told otherwise, and the file says which") {
  TempFolder kept;
  // All at one path: the order of images follows from the seed, but names go into messages.
  auto trained = [&](auto picture, const std::string& more) {
    TempFolder folder;
    for (std::string split : {"train/", "val/"})
      for (std::string kind : {"cat/", "dog/"})
        for (int i = 0; i < 4; ++i)
          folder.write(split + kind + std::to_string(i) + ".png",
                       picture(i + (kind == "cat/" ? 0 : 100)));
    Finished run = train("--json - --size 32 --data " + folder.path() + kQuick + more + " --save " +
                         kept.path() + "/w");
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    const auto events = events_of(run.out);
    std::vector<double> numbers = losses_of(events);
    numbers.push_back(events.back()["val_accuracy"]);
    return numbers;
  };
  auto card = [&] { return brim::nn::card_of(brim::io::SafetensorsFile(kept.path() + "/w")).exif; };
  const auto turned = trained(turned_png, "");
  CHECK(trained(tagged_png, "") == turned);
  CHECK(card() == true);
  const auto stored = trained(plain_png, "");
  CHECK(trained(tagged_png, " --no-exif") == stored);
  CHECK(card() == false);
  CHECK(stored != turned);
}

TEST_CASE("infer turns a picture as the file of weights says, unless told otherwise") {
  TempFolder folder;
  auto model = brim::nn::make_model("resnet20", {.classes = 3, .seed = 7});
  const std::string tagged = folder.write("tagged.png", tagged_png(1)),
                    turned = folder.write("turned.png", turned_png(1)),
                    plain = folder.write("plain.png", plain_png(1));
  const std::string weights = folder.path() + "/w";
  auto top = [&](const std::string& image, const std::string& more = "") {
    Finished run = infer("--json - --weights " + weights + more + " --image " + image);
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    return json::parse(run.out)["top"];
  };
  auto save = [&](std::optional<bool> exif) {
    brim::nn::save_weights(*model, weights,
                           {.model = "resnet20", .size = 32, .resize = 32, .exif = exif});
  };
  save({});
  REQUIRE(top(turned) != top(plain));
  for (std::optional<bool> exif : {std::optional<bool>(), std::optional(true)}) {
    save(exif);
    CHECK(top(tagged) == top(turned));
    CHECK(top(tagged, " --no-exif") == top(plain));
  }
  save(false);
  CHECK(top(tagged) == top(plain));
  CHECK(top(tagged, " --exif") == top(turned));
}

TEST_CASE("an image that cannot be read does not keep infer from the others") {
  TempFolder folder;
  const std::string weights = folder.path() + "/w";
  brim::nn::save_weights(*brim::nn::make_model("resnet20", {.classes = 3}), weights,
                         {.model = "resnet20", .size = 32, .resize = 32});
  const std::string good = folder.write("good.jpg", jpeg_picture(1)),
                    bad = folder.write("bad.jpg", Bytes{1, 2, 3}),
                    last = folder.write("last.jpg", jpeg_picture(2));
  const std::string images =
      "--weights " + weights + " --image " + good + " " + bad + " /no/such.jpg " + last;
  Finished run = infer(images);
  CHECK(run.code == 1);
  for (const std::string& name : {good, last}) CHECK(count(run.out, name + "\n") == 1);
  CHECK(count(run.err, "\n") == 3);
  CHECK(contains(run.err, "infer: decode_image: '" + bad));
  CHECK(contains(run.err, "/no/such.jpg"));
  CHECK(contains(run.err, "infer: image: 2 of 4 cannot be read\n"));
  run = infer(images + " --json -");
  CHECK(run.code == 1);
  const auto events = events_of(run.out);
  REQUIRE(events.size() == 4);
  CHECK(events[0].contains("top"));
  CHECK(contains(events[1]["error"].get<std::string>(), bad));
  CHECK(events[3]["image"] == last);
}

TEST_CASE("a PNG without its end is classified and trained on, with a note") {
  TempFolder folder;
  write_pictures(folder, 4);
  Bytes cut = plain_png(1);
  cut.resize(cut.size() - 12);
  const std::string image = folder.write("train/cat/9.png", cut);
  const std::string note = "PNG '" + image + "' ends after its pixels, without an end mark\n";
  Finished run = train("--size 32 --epochs 2 --batch 4 --threads 1 --save " + folder.path() +
                       "/w --data " + folder.path());
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  CHECK(count(run.out, note) == 1);
  run = infer("--weights " + folder.path() + "/w --image " + image);
  CHECK(run.code == 0);
  CHECK(run.err == "infer: " + note);
}
