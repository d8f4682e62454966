// Proves which files an image folder has, in which order, and what it says when one is wrong.
#include "brim/data/image_folder.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brim/base/error.h"
#include "brim/data/loader.h"
#include "brim/tests/support/encode_image.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using namespace brim::data;
using namespace brim::testing;

namespace {

using Names = std::vector<std::string>;

Bytes picture(int width = 9, int height = 6) {
  return encode_png({.width = width, .height = height}, smooth_picture(width, height));
}

template <class Act>
std::string error_of(const Act& act) {
  try {
    act();
    return "";
  } catch (const FileError& error) {
    return error.what();
  }
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The same images, each of them read whole.
class Whole : public Dataset {
 public:
  explicit Whole(const std::string& root) : images_(root) {}
  int64_t size() const override { return images_.size(); }
  const std::vector<std::string>& class_names() const override { return images_.class_names(); }
  int64_t label(int64_t index) const override { return images_.label(index); }
  std::string describe(int64_t index) const override { return images_.describe(index); }
  Image read(int64_t index, int target) const override { return images_.read(index, target); }

 private:
  ImageFolder images_;
};

/// Of two epochs.
std::vector<uint8_t> pixels_of(std::shared_ptr<const Dataset> dataset, LoaderOptions options) {
  std::vector<uint8_t> pixels;
  Loader loader(std::move(dataset), options);
  for (int64_t epoch : {0, 1}) {
    loader.start_epoch(epoch);
    while (std::optional<Batch> batch = loader.next())
      pixels.insert(pixels.end(), batch->pixels().begin(), batch->pixels().end());
  }
  return pixels;
}

}  // namespace

TEST_CASE("batches from parts of files are those of whole images, with any number of workers") {
  TempFolder folder;
  for (int i = 0; i < 9; ++i) {
    const JpegOptions options{.width = 70 + i, .height = 61, .subsampling = i % 2 == 0};
    folder.write("a/" + std::to_string(i) + ".jpg",
                 encode_jpeg(options, smooth_picture(options.width, options.height)));
  }
  folder.write("a/9.png", picture(70, 61));
  const std::vector<Augment> augments{{.kind = Augment::Kind::random_resized_crop, .flip = true},
                                      {.kind = Augment::Kind::none, .resize = 28},
                                      {.kind = Augment::Kind::padded_crop}};
  for (const Augment& augment : augments) {
    LoaderOptions options{.batch = 4, .size = 24, .workers = 0, .augment = augment};
    const auto expected = pixels_of(std::make_shared<Whole>(folder.path()), options);
    for (int workers : {0, 1, 3}) {
      CAPTURE(workers);
      options.workers = workers;
      CHECK(pixels_of(std::make_shared<ImageFolder>(folder.path()), options) == expected);
    }
  }
}

TEST_CASE("classes and files come in the order of their bytes") {
  TempFolder folder;
  for (const char* name : {"dog/b.png", "dog/a.jpg", "dog/B.JPEG", "dog/10.png", "dog/9.PNG",
                           "cat/x.jpg", "Ant/y.Jpg", "\xC3\xA4/z.png"})
    folder.write(name, picture());
  ImageFolder images(folder.path());
  CHECK(images.class_names() == Names{"Ant", "cat", "dog", "\xC3\xA4"});
  CHECK(images.classes() == 4);
  Names paths;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < images.size(); ++i) {
    paths.push_back(images.describe(i).substr(folder.path().size() + 1));
    labels.push_back(images.label(i));
  }
  CHECK(paths == Names{"Ant/y.Jpg", "cat/x.jpg", "dog/10.png", "dog/9.PNG", "dog/B.JPEG",
                       "dog/a.jpg", "dog/b.png", "\xC3\xA4/z.png"});
  CHECK(labels == std::vector<int64_t>{0, 1, 2, 2, 2, 2, 2, 3});
  CHECK(images.read(4, 0).pixels == smooth_picture(9, 6));
}

TEST_CASE("what is hidden, no file or no image is not looked at") {
  TempFolder folder;
  for (const char* name : {"a/1.png", "a/.hidden.png", "a/notes.txt", "a/png", "a/x.png.bak",
                           "a/.png", ".cache/2.png", "loose.png", "a/deeper.png/3.png"})
    folder.write(name, picture());
  REQUIRE(::mkfifo((folder.path() + "/a/pipe.png").c_str(), 0600) == 0);
  ImageFolder images(folder.path());
  CHECK(images.class_names() == Names{"a"});
  CHECK(images.size() == 1);
}

TEST_CASE("links are followed") {
  TempFolder folder, elsewhere;
  std::string target = elsewhere.write("real/1.png", picture());
  folder.write("a/2.png", picture());
  std::filesystem::create_symlink(target, folder.path() + "/a/1.png");
  std::filesystem::create_directory_symlink(elsewhere.path() + "/real", folder.path() + "/b");
  std::filesystem::create_symlink("/nowhere", folder.path() + "/a/3.png");
  ImageFolder images(folder.path());
  CHECK(images.class_names() == Names{"a", "b"});
  CHECK(images.size() == 3);
  CHECK(images.read(0, 0).width == 9);
}

TEST_CASE("missing and empty folders are named") {
  TempFolder folder;
  auto open = [&] { ImageFolder images(folder.path()); };
  CHECK(contains(error_of([] { ImageFolder images("/no/such/folder"); }), "'/no/such/folder'"));
  CHECK(
      contains(error_of([&] { ImageFolder images(folder.write("file", {})); }), "Not a directory"));
  CHECK(contains(error_of(open), "expected class folders in '" + folder.path() + "'"));
  folder.write("cat/1.jpg", picture());
  folder.make_folder("dog");
  folder.write("dog/notes.txt", {});
  CHECK(error_of(open) == "image_folder: the class folder '" + folder.path() +
                              "/dog' has no .jpg, .jpeg or .png file");
}

TEST_CASE("no image is opened before it is read, and a bad one is named") {
  TempFolder folder;
  folder.write("a/1.png", {});
  folder.write("a/2.jpg", Bytes{'n', 'o'});
  std::string gone = folder.write("a/3.png", picture());
  folder.write("a/4.png", picture(40, 30));
  ImageFolder images(folder.path(), {.max_pixels = 100, .max_file_bytes = 10'000});
  REQUIRE(images.size() == 4);
  std::filesystem::remove(gone);
  for (int64_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(contains(error_of([&] { images.read(i, 0); }), images.describe(i)));
  }
  CHECK(contains(error_of([&] { images.read(3, 0); }), "40 x 30"));
  CHECK_THROWS_AS(images.read(4, 0), ValueError);
  CHECK_THROWS_AS(images.label(-1), ValueError);
}

TEST_CASE("a JPEG is decoded at the reduced size that is asked for") {
  TempFolder folder;
  folder.write("a/1.jpg", encode_jpeg({.width = 64, .height = 48}, smooth_picture(64, 48)));
  ImageFolder images(folder.path());
  CHECK(images.read(0, 12).width == 16);
  CHECK(images.read(0, 0).width == 64);
}

TEST_CASE("both splits must have the same classes") {
  TempFolder folder;
  for (const char* name :
       {"train/a/1.png", "train/b/1.png", "val/a/1.png", "val/b/1.png", "val/b/2.png"})
    folder.write(name, picture());
  CHECK(open_split(folder.path(), "train")->size() == 2);
  CHECK(open_split(folder.path(), "val")->size() == 3);
  CHECK_THROWS_AS(open_split(folder.path(), "test"), ValueError);

  std::string root = folder.path();
  folder.write("train/aa/1.png", picture());
  CHECK(error_of([&] { open_split(root, "val"); }) ==
        "image_folder: the class folder 'aa' is in '" + root + "/train' but not in '" + root +
            "/val'; both need the same classes");
  folder.write("val/aa/1.png", picture());
  folder.write("val/c/1.png", picture());
  CHECK(contains(error_of([&] { open_split(root, "train"); }),
                 "'c' is in '" + root + "/val' but not in '" + root + "/train'"));
  std::filesystem::remove_all(root + "/val");
  CHECK(contains(error_of([&] { open_split(root, "train"); }), root + "/val"));
}
