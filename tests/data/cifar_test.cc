// Proves that both versions of CIFAR are read as they are laid out, and that each way in which
// their files can be wrong is named.
#include "brim/data/cifar.h"

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

/// What opening a split of the folder says, without the folder's path.
std::string error_of(const TempFolder& folder, const std::string& split = "train") {
  std::string text = error_text<FileError>([&] { Cifar cifar(folder.path(), split); });
  return without(text, folder.path() + "/");
}

void write_cifar100(const TempFolder& folder) {
  folder.write("train.bin", cifar_records({{19, 99}, {0, 50}}));
  folder.write("test.bin", cifar_records({{3, 0}}));
  folder.write("fine_label_names.txt", name_lines(100, "fine "));
}

}  // namespace

TEST_CASE("CIFAR-10: five files in order, colours in planes, names from their file") {
  TempFolder folder;
  write_cifar10(folder);
  folder.write("data_batch_2.bin", cifar_records({{7}}));
  Cifar train(folder.path(), "train"), val(folder.path(), "val");
  CHECK(train.size() == 41);
  CHECK(val.size() == 10);
  CHECK(train.classes() == 10);
  CHECK(train.class_names().front() == "class 0");
  CHECK(train.class_names().back() == "class 9");
  CHECK(train.label(9) == 9);
  CHECK(train.label(10) == 7);
  CHECK(train.label(11) == 0);
  CHECK(train.describe(10) == folder.path() + "/data_batch_2.bin, image 0");
  CHECK(train.describe(40) == folder.path() + "/data_batch_5.bin, image 9");
  for (int64_t i : {0, 9, 10, 40}) {
    const Image image = train.read(i, 0);
    const size_t first = i == 40 ? 9 : i % 10;  // the record's number within its file
    REQUIRE(image.width == 32);
    REQUIRE(image.height == 32);
    for (size_t pixel = 0; pixel < 1024; ++pixel)
      for (size_t channel = 0; channel < 3; ++channel)
        REQUIRE(image.pixels[3 * pixel + channel] == (first + channel * 1024 + pixel) % 256);
  }
  CHECK_THROWS_AS(train.read(41, 0), ValueError);
  CHECK_THROWS_AS(train.label(-1), ValueError);
  CHECK_THROWS_AS(Cifar(folder.path(), "test"), ValueError);
}

TEST_CASE("CIFAR-100: the fine labels are the classes") {
  TempFolder folder;
  write_cifar100(folder);
  Cifar train(folder.path(), "train"), val(folder.path(), "val");
  CHECK(train.size() == 2);
  CHECK(val.size() == 1);
  CHECK(train.classes() == 100);
  CHECK(train.class_names()[50] == "fine 50");
  CHECK(train.label(0) == 99);
  CHECK(train.label(1) == 50);
  CHECK(train.read(1, 0).pixels[0] == 1);
  CHECK(train.read(1, 0).pixels[3] == 2);
}

TEST_CASE("files that are missing are named") {
  TempFolder folder;
  CHECK_FALSE(has_cifar(folder.path()));
  CHECK(error_of(folder) ==
        "cifar: expected data_batch_1.bin (CIFAR-10) or train.bin (CIFAR-100) "
        "in '" +
            folder.path() + "'");
  write_cifar10(folder);
  CHECK(has_cifar(folder.path()));
  std::filesystem::remove(folder.path() + "/data_batch_4.bin");
  CHECK(error_of(folder) ==
        "cifar: '" + folder.path() + "' has no file 'data_batch_4.bin', which CIFAR-10 needs");
  CHECK(error_of(folder, "val") == "");
  std::filesystem::remove(folder.path() + "/batches.meta.txt");
  CHECK(error_of(folder) == "read_file: cannot open 'batches.meta.txt': No such file or directory");
}

TEST_CASE("lengths that are no whole number of records are refused") {
  TempFolder folder;
  write_cifar10(folder);
  auto records = cifar_records({{1}, {2}});
  records.pop_back();
  folder.write("data_batch_3.bin", records);
  CHECK(error_of(folder) ==
        "cifar: 'data_batch_3.bin' has 6145 bytes, expected a multiple of 3073: 1 of labels and "
        "3072 of pixels for each image");
  folder.write("data_batch_3.bin", {});
  CHECK(error_of(folder).starts_with("cifar: 'data_batch_3.bin' has 0 bytes, expected a multiple"));
}

TEST_CASE("labels out of range are named with their image") {
  TempFolder folder;
  write_cifar10(folder);
  folder.write("test_batch.bin", cifar_records({{1}, {2}, {10}}));
  CHECK(error_of(folder, "val") ==
        "cifar: 'test_batch.bin': expected labels below 10, got 10 for image 2");
  TempFolder hundred;
  write_cifar100(hundred);
  hundred.write("train.bin", cifar_records({{20, 0}}));
  CHECK(error_of(hundred) == "cifar: 'train.bin': expected labels below 20, got 20 for image 0");
  hundred.write("train.bin", cifar_records({{0, 0}, {0, 100}}));
  CHECK(error_of(hundred) == "cifar: 'train.bin': expected labels below 100, got 100 for image 1");
}

TEST_CASE("there is a name for each class, whatever the line ends") {
  TempFolder folder;
  write_cifar10(folder);
  folder.write("batches.meta.txt", name_lines(9, "c"));
  CHECK(error_of(folder) == "cifar: 'batches.meta.txt' names 9 classes, expected 10");
  folder.write("batches.meta.txt", name_lines(11, "c"));
  CHECK(error_of(folder) == "cifar: 'batches.meta.txt' names more than 10 classes");
  const std::string text = "a\r\nb\r\n\r\nc\nd\ne\nf\ng\nh\ni\nj";
  folder.write("batches.meta.txt", std::vector<uint8_t>(text.begin(), text.end()));
  const auto names = Cifar(folder.path(), "val").class_names();
  CHECK(names.front() == "a");
  CHECK(names[1] == "b");
  CHECK(names[2] == "c");
  CHECK(names.back() == "j");
  folder.write("batches.meta.txt", std::vector<uint8_t>(70'000, 'x'));
  CHECK(error_of(folder).starts_with("read_file: 'batches.meta.txt' has 68.4 KiB, more than"));
}

TEST_CASE("classes without an image are noted") {
  TempFolder folder;
  write_cifar10(folder);
  CHECK(Cifar(folder.path(), "val").notes(0).empty());
  folder.write("test_batch.bin", cifar_records({{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {7}, {8}}));
  const Cifar cifar(folder.path(), "val");
  CHECK(cifar.notes(0) ==
        std::vector<std::string>{"'" + folder.path() +
                                 "' (val): 1 of 10 classes has no image: 'class 9'"});
  CHECK(cifar.notes(1).empty());
}
