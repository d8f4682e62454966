// Proves that the format of a data set is told by the names in its folder, and that a folder
// without one is told what was looked for.
#include "brim/data/open_dataset.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "brim/base/error.h"
#include "brim/tests/support/encode_image.h"
#include "brim/tests/support/small_datasets.h"

using namespace brim;
using namespace brim::data;
using namespace brim::testing;

TEST_CASE("each format is found, opened, and says the size of its images where it has one") {
  TempFolder pictures, cifar, mnist;
  for (const char* name : {"train/a/1.png", "val/a/1.png", "val/a/2.png"})
    pictures.write(name, encode_png({.width = 9, .height = 6}, smooth_picture(9, 6)));
  write_cifar10(cifar);
  write_mnist(mnist, 12, 20, 24);

  CHECK(detect_format(pictures.path()) == DatasetFormat::image_folder);
  CHECK(open_dataset(pictures.path(), "val")->size() == 2);
  CHECK(native_size(pictures.path()) == 0);
  CHECK(detect_format(cifar.path()) == DatasetFormat::cifar);
  CHECK(open_dataset(cifar.path(), "train")->size() == 50);
  CHECK(native_size(cifar.path()) == 32);
  CHECK(detect_format(mnist.path()) == DatasetFormat::idx);
  CHECK(open_dataset(mnist.path(), "val")->size() == 12);
  CHECK(native_size(mnist.path()) == 20);
  for (const TempFolder* folder : {&pictures, &cifar, &mnist})
    CHECK_THROWS_AS(open_dataset(folder->path(), "test"), ValueError);
}

TEST_CASE("where no data set is, the names that were looked for are listed") {
  CHECK_THROWS_WITH_AS(detect_format("/no/such/folder"),
                       "data set: '/no/such/folder' is not a folder that can be opened", FileError);
  TempFolder folder;
  folder.write("mnist.npz", {});
  std::string error;
  try {
    open_dataset(folder.path(), "train");
  } catch (const FileError& caught) {
    error = caught.what();
  }
  for (std::string part : {folder.path().c_str(), "train/<class>", "data_batch_1.bin", "train.bin",
                           "train-images-idx3-ubyte"}) {
    CAPTURE(part);
    CHECK(error.find(part) != std::string::npos);
  }
}

TEST_CASE("a split that is a link to nowhere is named, not taken for missing") {
  TempFolder folder;
  folder.write("val/a/1.png", encode_png({.width = 9, .height = 6}, smooth_picture(9, 6)));
  const std::string train = folder.path() + "/train";
  std::filesystem::create_symlink("/no/where", train);
  CHECK_THROWS_WITH_AS(open_dataset(folder.path(), "val"),
                       ("data set: '" + train + "' is a link that leads nowhere").c_str(),
                       FileError);
}
