// Proves which files an image folder has, in which order, and what it says when one is wrong.
#include "brim/data/image_folder.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "brim/base/error.h"
#include "brim/base/stop.h"
#include "brim/data/loader.h"
#include "brim/data/picture_files.h"
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

TEST_CASE("every ending of JPEG and PNG is taken, in any case, at any depth") {
  TempFolder folder;
  for (const char* name : {"a/1.jpg", "a/2.jpeg", "a/3.jpe", "a/4.jfif", "a/5.jif", "a/6.png",
                           "a/7.JPE", "a/8.JfIf", "a/deep/1.PNG", "a/deep/er.png/2.jpg"})
    folder.write(name, picture());
  ImageFolder images(folder.path());
  Names paths;
  for (int64_t i = 0; i < images.size(); ++i)
    paths.push_back(images.describe(i).substr(folder.path().size() + 3));
  CHECK(paths == Names{"1.jpg", "2.jpeg", "3.jpe", "4.jfif", "5.jif", "6.png", "7.JPE", "8.JfIf",
                       "deep/1.PNG", "deep/er.png/2.jpg"});
  CHECK(images.read(9, 0).width == 9);
  CHECK(images.notes(0).empty());
}

TEST_CASE("what is passed over is counted by kind, but for what is hidden") {
  TempFolder folder;
  for (const char* name :
       {"a/1.png", "a/.hidden.png", "a/notes.txt", "a/png", "a/x.png.bak", "a/.png", ".cache/2.png",
        "loose.png", "a/1.webp", "a/deep/2.WEBP", "b/3.webp", "b/1.png", "__MACOSX/a/1.png",
        "b/__MACOSX/2.png", "b/.git/2.png", "b/x.tail of a name", "b/x.\xFF"})
    folder.write(name, picture());
  REQUIRE(::mkfifo((folder.path() + "/a/pipe.png").c_str(), 0600) == 0);
  ImageFolder images(folder.path());
  CHECK(images.class_names() == Names{"a", "b"});
  CHECK(images.size() == 2);
  const std::string said = "passed over in '" + folder.path() +
                           "': 10 files: 3 .webp, 3 without an ending, 1 .bak, 1 .txt, "
                           "1 beside the class folders, 1 that are no plain files";
  CHECK(images.notes(0) == Names{said});
  CHECK(images.notes(1).empty());
}

TEST_CASE("many kinds of files are not all told") {
  LeftOut left_out;
  for (int i = 0; i < 12; ++i) left_out["." + std::string(1, static_cast<char>('a' + i))] = 20 - i;
  CHECK(describe(left_out) ==
        "174 files: 20 .a, 19 .b, 18 .c, 17 .d, 16 .e, 15 .f, 14 .g, 13 .h, 42 of other kinds");
  CHECK(describe({{".gif", 1}}) == "1 file: 1 .gif");
  CHECK(describe({}) == "");
}

TEST_CASE("links are followed") {
  TempFolder folder, elsewhere;
  std::string target = elsewhere.write("real/1.png", picture());
  folder.write("a/2.png", picture());
  std::filesystem::create_symlink(target, folder.path() + "/a/1.png");
  std::filesystem::create_directory_symlink(elsewhere.path() + "/real", folder.path() + "/b");
  ImageFolder images(folder.path());
  CHECK(images.class_names() == Names{"a", "b"});
  CHECK(images.size() == 3);
  CHECK(images.read(0, 0).width == 9);
}

TEST_CASE("links that lead nowhere or back, and folders that cannot be read, are named") {
  namespace fs = std::filesystem;
  for (const char* name : {"a/3.png", "a/notes", "dog", "a/deep/er"}) {
    TempFolder folder;
    folder.write("a/1.png", picture());
    folder.write("a/deep/1.png", picture());
    const std::string link = folder.path() + "/" + name;
    fs::create_symlink("/no/where", link);
    CHECK(error_of([&] { ImageFolder images(folder.path()); }) ==
          "image_folder: '" + link + "' is a link that leads nowhere: No such file or directory");
  }
  TempFolder folder;
  folder.write("a/deep/1.png", picture());
  fs::create_directory_symlink(folder.path() + "/a", folder.path() + "/a/deep/again");
  CHECK(error_of([&] { ImageFolder images(folder.path()); }) ==
        "image_folder: the folder '" + folder.path() +
            "/a/deep/again' leads back to one that it is in");
  fs::remove(folder.path() + "/a/deep/again");

  // Who may do everything can read any folder: then as somebody else.
  fs::permissions(folder.path(), fs::perms::all);
  fs::permissions(folder.path() + "/a/deep", fs::perms::none);
  const bool is_root = ::geteuid() == 0;
  if (is_root && ::seteuid(65534) != 0) {
    MESSAGE("skipped in part: nobody else to be");
    return;
  }
  const std::string error = error_of([&] { ImageFolder images(folder.path()); });
  if (is_root) REQUIRE(::seteuid(0) == 0);
  fs::permissions(folder.path() + "/a/deep", fs::perms::all);
  CHECK(error ==
        "image_folder: cannot open the folder '" + folder.path() + "/a/deep': Permission denied");
}

TEST_CASE("a listing ends where a stop is asked for") {
  TempFolder folder;
  for (int i = 0; i < 9; ++i) folder.write("a/" + std::to_string(i) + ".jpg", picture());
  int looks = 0;
  const StopAsked asked = [&] { return ++looks == 5; };
  const StopScope may_stop(&asked);
  CHECK_THROWS_AS(ImageFolder(folder.path()), Stop);
  CHECK(looks == 5);
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
                              "/dog' has no .jpg, .jpeg, .jpe, .jfif, .jif or .png file, but 1 "
                              "file: 1 .txt");
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

TEST_CASE("both splits have the classes of training") {
  TempFolder folder;
  for (const char* name :
       {"train/a/1.png", "train/b/1.png", "val/a/1.png", "val/b/1.png", "val/b/2.png"})
    folder.write(name, picture());
  CHECK(open_split(folder.path(), "train")->size() == 2);
  CHECK(open_split(folder.path(), "val")->size() == 3);
  CHECK(open_split(folder.path(), "val")->notes(0).empty());
  CHECK_THROWS_AS(open_split(folder.path(), "test"), ValueError);

  // One without images to validate, or without a folder for them, keeps its label.
  std::string root = folder.path();
  folder.write("train/aa/1.png", picture());
  folder.write("train/aaa/1.png", picture());
  folder.make_folder("val/aaa");
  auto val = open_split(root, "val");
  CHECK(val->class_names() == Names{"a", "aa", "aaa", "b"});
  CHECK(val->label(0) == 0);
  CHECK(val->label(1) == 3);
  CHECK(val->notes(0) == Names{"'" + root + "/val': 2 of 4 classes have no image: 'aa', 'aaa'"});
  CHECK(open_split(root, "train")->notes(0).empty());

  folder.write("val/c/1.png", picture());
  for (const char* split : {"train", "val"})
    CHECK(error_of([&] { open_split(root, split); }) ==
          "image_folder: the class folder 'c' is in '" + root + "/val' but not in '" + root +
              "/train': nothing would be trained on");
  std::filesystem::remove_all(root + "/val");
  CHECK(contains(error_of([&] { open_split(root, "train"); }), root + "/val"));
  folder.make_folder("val/a");
  CHECK(contains(error_of([&] { open_split(root, "val"); }), "no class folder in '" + root));
}

TEST_CASE("a PNG without its end is read, and noted once") {
  TempFolder folder;
  Bytes cut = picture();
  cut.resize(cut.size() - 12);
  folder.write("a/1.png", cut);
  folder.write("a/2.png", picture());
  ImageFolder images(folder.path());
  CHECK(images.notes(0).empty());
  for (int i = 0; i < 2; ++i) CHECK(images.read(0, 0) == images.read(1, 0));
  images.read_part(0, 0, [](int, int) { return Box{0, 0, 1, 1}; });
  CHECK(images.notes(0) ==
        Names{"PNG '" + folder.path() + "/a/1.png' ends after its pixels, without an end mark"});
  CHECK(images.notes(1).empty());
}
