// Proves that MNIST's files are read as they are laid out, and that each way in which they can be
// wrong is named.
#include "brim/data/idx.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "brim/base/error.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/small_datasets.h"

using namespace brim;
using namespace brim::data;
using namespace brim::testing;

namespace {

using Bytes = std::vector<uint8_t>;

const Bytes kImages = idx_bytes({3, 2, 4}, counted(24)), kLabels = idx_bytes({3}, Bytes{4, 0, 2});

/// What opening these files says.
std::string error_of(const Bytes& images, const Bytes& labels, int64_t classes = 0) {
  TempFolder folder;
  const IdxFiles files{folder.write("i", images), folder.write("l", labels)};
  std::string text = error_text<FileError>([&] { Idx idx(files, classes); });
  return without(text, folder.path() + "/");
}

Bytes with_byte(Bytes bytes, size_t at, uint8_t value) {
  bytes[at] = value;
  return bytes;
}

}  // namespace

TEST_CASE("images and labels come from their places, and grey becomes RGB") {
  TempFolder folder;
  Idx idx({folder.write("i", kImages), folder.write("l", kLabels)});
  CHECK(idx.size() == 3);
  CHECK(idx.height() == 2);
  CHECK(idx.width() == 4);
  CHECK(idx.classes() == 5);
  CHECK(idx.class_names() == std::vector<std::string>{"0", "1", "2", "3", "4"});
  CHECK(idx.label(0) == 4);
  CHECK(idx.label(1) == 0);
  CHECK(idx.label(2) == 2);
  for (int64_t i = 0; i < 3; ++i) {
    const Image image = idx.read(i, 0);
    REQUIRE(image.width == 4);
    REQUIRE(image.height == 2);
    for (size_t at = 0; at < 24; ++at) CHECK(image.pixels[at] == 8 * i + at / 3);
  }
  CHECK(idx.describe(1) == folder.path() + "/i, image 1");
  CHECK_THROWS_AS(idx.read(3, 0), ValueError);
  CHECK_THROWS_AS(idx.label(-1), ValueError);
}

TEST_CASE("both of MNIST's spellings are found, and validation has the classes of training") {
  TempFolder folder;
  folder.write("train-images-idx3-ubyte", kImages);
  folder.write("train-labels.idx1-ubyte", kLabels);
  folder.write("t10k-images.idx3-ubyte", idx_bytes({1, 1, 1}, Bytes{9}));
  folder.write("t10k-labels-idx1-ubyte", idx_bytes({1}, Bytes{1}));
  REQUIRE(has_idx(folder.path()));
  CHECK(open_idx(folder.path(), "train")->size() == 3);
  CHECK(open_idx(folder.path(), "val")->size() == 1);
  CHECK(open_idx(folder.path(), "val")->classes() == 5);
  CHECK_THROWS_AS(open_idx(folder.path(), "test"), ValueError);
  folder.write("t10k-labels-idx1-ubyte", idx_bytes({1}, Bytes{5}));
  CHECK_THROWS_WITH_AS(open_idx(folder.path(), "val"),
                       ("idx: '" + folder.path() +
                        "/t10k-labels-idx1-ubyte': expected labels below 5, got 5 for image 0")
                           .c_str(),
                       FileError);
}

TEST_CASE("files that are missing or compressed are named") {
  TempFolder folder;
  const std::string root = folder.path();
  CHECK_FALSE(has_idx(root));
  CHECK_THROWS_WITH_AS(open_idx(root, "train"),
                       ("idx: expected '" + root +
                        "/train-images-idx3-ubyte' (or 'train-images.idx3-ubyte'), and there is "
                        "none")
                           .c_str(),
                       FileError);
  folder.write("train-images-idx3-ubyte.gz", Bytes{0x1F, 0x8B});
  CHECK(has_idx(root));
  CHECK_THROWS_WITH_AS(
      open_idx(root, "train"),
      ("idx: '" + root + "/train-images-idx3-ubyte.gz' is compressed: run gunzip on it first")
          .c_str(),
      FileError);
  CHECK(error_of(Bytes{0x1F, 0x8B, 8, 0}, kLabels) ==
        "idx: 'i' is compressed: run gunzip on it first");
}

TEST_CASE("swapped files are told from damaged ones") {
  CHECK(error_of(kLabels, kImages) ==
        "idx: 'i' holds labels and 'l' holds images: the two files are swapped");
  CHECK(error_of(kLabels, kLabels) ==
        "idx: expected images in 3 dimensions, got 1 in 'i', which looks like labels");
  CHECK(error_of(kImages, kImages) ==
        "idx: expected labels in 1 dimension, got 3 in 'l', which looks like images");
  CHECK(error_of(idx_bytes({1, 1, 1, 1}, Bytes{1}), kLabels) ==
        "idx: expected images in 3 dimensions, got 4 in 'i'");
}

TEST_CASE("headers that cannot be true are refused by name") {
  CHECK(error_of({}, kLabels) == "idx: 'i' has 0 bytes, too few for IDX");
  CHECK(error_of(with_byte(kImages, 0, 1), kLabels) ==
        "idx: 'i' is not IDX: expected it to start with the bytes 00 00, got 01 00 08 03");
  CHECK(error_of(with_byte(kImages, 2, 0x0D), kLabels) ==
        "idx: 'i' has elements of type 0x0d, expected 0x08 (unsigned bytes)");
  CHECK(error_of(Bytes(kImages.begin(), kImages.begin() + 15), kLabels) ==
        "idx: 'i' has 15 bytes, too few for its header of 16");
  CHECK(error_of(kImages, idx_bytes({2}, Bytes{4, 0})) ==
        "idx: 'i' holds 3 images, but 'l' holds 2 labels");
  CHECK(error_of(idx_bytes({0, 2, 4}, {}), idx_bytes({0}, {})) == "idx: 'i' holds no images");
  CHECK(error_of(idx_bytes({3, 0, 4}, {}), kLabels) ==
        "idx: 'i' claims images of 4 x 0 pixels, expected 1 to 1048576 of them");
  CHECK(error_of(idx_bytes({3, ~0u, ~0u}, {}), kLabels) ==
        "idx: 'i' claims images of 4294967295 x 4294967295 pixels, expected 1 to 1048576 of them");
}

TEST_CASE("a length other than the header's is refused before anything is read") {
  Bytes longer = kImages, shorter = kImages;
  longer.push_back(0);
  shorter.pop_back();
  CHECK(error_of(longer, kLabels) ==
        "idx: 'i' has 41 bytes, expected 40 for 3 images of 4 x 2 pixels");
  CHECK(error_of(shorter, kLabels) ==
        "idx: 'i' has 39 bytes, expected 40 for 3 images of 4 x 2 pixels");
  CHECK(error_of(kImages, idx_bytes({3}, Bytes{1, 1})) ==
        "idx: 'l' has 10 bytes, expected 11 for 3 labels");
  CHECK(error_of(idx_bytes({~0u, 1024, 1024}, {}), idx_bytes({~0u}, {})) ==
        "idx: 'i' has 16 bytes, expected 4503599626321936 for 4294967295 images of 1024 x 1024 "
        "pixels");
}

TEST_CASE("a label beyond the classes is named with its image") {
  CHECK(error_of(kImages, kLabels, 5) == "");
  CHECK(error_of(kImages, kLabels, 4) == "idx: 'l': expected labels below 4, got 4 for image 0");
}

TEST_CASE("a file that shrinks while it is open is an error, not a crash") {
  TempFolder folder;
  const std::string images = folder.write("i", kImages);
  Idx idx({images, folder.write("l", kLabels)});
  std::filesystem::resize_file(images, 30);
  CHECK(idx.read(0, 0).pixels[0] == 0);
  CHECK_THROWS_WITH_AS(
      idx.read(2, 0),
      ("idx: '" + images + "' ended at byte 32, where 8 more were expected").c_str(), FileError);
}

TEST_CASE("classes without an image are noted where most have none, or the classes were given") {
  TempFolder folder;
  auto notes = [&](Bytes labels, int64_t classes = 0) {
    const auto count = static_cast<uint32_t>(labels.size());
    Idx idx({folder.write("i", idx_bytes({count, 1, 1}, counted(count))),
             folder.write("l", idx_bytes({count}, labels))},
            classes);
    CHECK(idx.notes(1).empty());
    std::string all;
    for (const std::string& note : idx.notes(0)) all += without(note, folder.path() + "/");
    return all;
  };
  CHECK(notes({0, 1, 2, 3}) == "");
  CHECK(notes({0, 2, 3}) == "");
  CHECK(notes({0, 1, 200, 3}) ==
        "'l': 197 of 201 classes have no image: '2', '4', '5', '6', '7', ...; the largest label is "
        "200, of image 2");
  CHECK(notes({0, 1, 2, 3}, 5) ==
        "'l': 1 of 5 classes has no image: '4'; the largest label is 3, of image 3");
}
