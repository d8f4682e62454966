// Proves that every image that cannot be read whole is found before training, and that a data set
// is known again by the names, labels and pixels of its images.
#include "brim/data/check_images.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "brim/data/image_folder.h"
#include "brim/data/subset.h"
#include "brim/tests/data/fake_dataset.h"
#include "brim/tests/support/encode_image.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using namespace brim::data;
using namespace brim::testing;

namespace {

Bytes picture(int width = 40, int height = 40) {
  return encode_jpeg({.width = width, .height = height}, smooth_picture(width, height));
}

}  // namespace

TEST_CASE("bad images are found, whatever the number of threads") {
  Fake fake(50, {3, 17, 49});
  for (int workers : {0, 1, 4}) {
    const CheckedImages checked = check_images(fake, workers);
    REQUIRE(checked.bad.size() == 3);
    for (auto [at, index] : {std::pair<size_t, int64_t>{0, 3}, {1, 17}, {2, 49}}) {
      CHECK(checked.bad[at].index == index);
      CHECK(checked.bad[at].reason == "fake: 'fake/" + std::to_string(index) + "' is bad");
    }
    CHECK(checked.contents == check_images(fake, 2).contents);
  }
}

TEST_CASE("an error that is no fault of a file is passed on") {
  struct Broken final : Fake {
    Broken() : Fake(9) {}
    Image read(int64_t, int) const override { raise<ValueError>("broken", "no image at all"); }
  };
  for (int workers : {0, 3})
    CHECK_THROWS_WITH_AS(check_images(Broken(), workers), "broken: no image at all", ValueError);
}

TEST_CASE("a damaged end that a crop does not reach is found") {
  TempFolder folder;
  Bytes damaged = picture();
  std::fill(damaged.end() - 60, damaged.end() - 30, 0xFE);
  folder.write("a/1.jpg", picture());
  folder.write("a/2.jpg", damaged);
  ImageFolder images(folder.path());
  CHECK_NOTHROW(images.read_part(1, 0, [](int width, int) { return Box{0, 0, width, 1}; }));
  const CheckedImages checked = check_images(images, 2);
  REQUIRE(checked.bad.size() == 1);
  CHECK(checked.bad[0].index == 1);
  CHECK(checked.bad[0].reason.find("a/2.jpg': Corrupt JPEG data") != std::string::npos);
}

TEST_CASE("a set is known by its names, labels and pixels") {
  TempFolder folder;
  for (const char* name : {"cat/1.jpg", "cat/2.jpg", "dog/1.jpg"}) folder.write(name, picture());
  const ImageFolder before(folder.path());
  auto names_after = [&] { return names_checksum(ImageFolder(folder.path())); };
  auto contents_after = [&] { return check_images(ImageFolder(folder.path()), 1).contents; };
  const uint64_t names = names_checksum(before), contents = check_images(before, 1).contents;
  CHECK(names_after() == names);
  CHECK(contents_after() == contents);

  const std::string root = folder.path() + "/";
  std::filesystem::rename(root + "cat/2.jpg", root + "cat/3.jpg");
  CHECK(names_after() != names);
  CHECK(contents_after() == contents);
  std::filesystem::rename(root + "cat/3.jpg", root + "dog/2.jpg");
  CHECK(names_after() != names);
  CHECK(contents_after() != contents);
  std::filesystem::rename(root + "dog/2.jpg", root + "cat/2.jpg");
  CHECK(names_after() == names);
  folder.write("cat/2.jpg", picture(40, 39));
  CHECK(names_after() == names);
  CHECK(contents_after() != contents);
  folder.write("cat/2.jpg", picture());
  std::filesystem::rename(root + "cat", root + "kitten");
  CHECK(names_after() != names);
}

TEST_CASE("a subset has the other images, with their labels") {
  auto fake = std::make_shared<const Fake>(6);
  const Subset subset(fake, {1, 5});
  CHECK(subset.size() == 4);
  CHECK(subset.class_names() == fake->class_names());
  for (auto [at, index] : {std::pair<int64_t, int64_t>{0, 0}, {1, 2}, {2, 3}, {3, 4}}) {
    CHECK(subset.label(at) == fake->label(index));
    CHECK(subset.describe(at) == fake->describe(index));
    CHECK(subset.read(at, 0) == fake->read(index, 0));
    CHECK(subset.read_part(at, 0, {}).pixels == fake->read(index, 0));
  }
  CHECK_THROWS_AS(subset.read(4, 0), ValueError);
  CHECK_THROWS_AS(Subset(fake, {6}), ValueError);
  CHECK_THROWS_AS(Subset(nullptr, {}), ValueError);
}
