// Small data sets in the formats of MNIST and CIFAR, written into a folder, for tests of what reads
// them and of what trains on them. The pixels are counted up, so that each tells its place. For
// folders of pictures see encode_image.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "brim/tests/support/temp_folder.h"

namespace brim::testing {

/// A file of IDX: its header, then `elements`. Type 8 is unsigned bytes.
inline std::vector<uint8_t> idx_bytes(const std::vector<uint32_t>& sizes,
                                      std::span<const uint8_t> elements, uint8_t type = 8) {
  std::vector<uint8_t> file{0, 0, type, static_cast<uint8_t>(sizes.size())};
  for (uint32_t size : sizes)
    for (int shift : {24, 16, 8, 0}) file.push_back(static_cast<uint8_t>(size >> shift));
  file.insert(file.end(), elements.begin(), elements.end());
  return file;
}

/// `count` bytes: start, start + 1, ...
inline std::vector<uint8_t> counted(size_t count, int start = 0) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<uint8_t>(static_cast<size_t>(start) + i);
  return bytes;
}

/// MNIST's four files: `count` images of width x height in each split, of the classes 0 to 9 in
/// turn.
inline void write_mnist(const TempFolder& folder, uint32_t count, uint32_t height = 28,
                        uint32_t width = 28) {
  std::vector<uint8_t> labels;
  for (uint32_t i = 0; i < count; ++i) labels.push_back(static_cast<uint8_t>(i % 10));
  for (std::string stem : {"train", "t10k"}) {
    folder.write(stem + "-images-idx3-ubyte",
                 idx_bytes({count, height, width}, counted(size_t{count} * height * width)));
    folder.write(stem + "-labels-idx1-ubyte", idx_bytes({count}, labels));
  }
}

/// Records of CIFAR: the given labels, then pixels counted up from the record's number.
inline std::vector<uint8_t> cifar_records(const std::vector<std::vector<uint8_t>>& labels) {
  std::vector<uint8_t> file;
  for (size_t i = 0; i < labels.size(); ++i) {
    file.insert(file.end(), labels[i].begin(), labels[i].end());
    const auto pixels = counted(3072, static_cast<int>(i));
    file.insert(file.end(), pixels.begin(), pixels.end());
  }
  return file;
}

/// Lines "<prefix>0", "<prefix>1", ... and an empty one.
inline std::vector<uint8_t> name_lines(int count, const std::string& prefix) {
  std::string text;
  for (int i = 0; i < count; ++i) text += prefix + std::to_string(i) + "\n";
  text += "\n";
  return {text.begin(), text.end()};
}

/// CIFAR-10's seven files, each of the images with ten records, one of each class.
inline void write_cifar10(const TempFolder& folder) {
  std::vector<std::vector<uint8_t>> labels;
  for (uint8_t label = 0; label < 10; ++label) labels.push_back({label});
  for (std::string name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                           "data_batch_5", "test_batch"})
    folder.write(name + ".bin", cifar_records(labels));
  folder.write("batches.meta.txt", name_lines(10, "class "));
}

}  // namespace brim::testing
