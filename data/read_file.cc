#include "brim/data/read_file.h"

#include "brim/base/bytes.h"
#include "brim/base/error.h"
#include "brim/io/input_file.h"

namespace brim::data {

void read_file(const std::string& path, int64_t max_bytes, std::vector<uint8_t>& bytes) {
  io::InputFile file(path, "read_file");
  expect<FileError>(file.size() <= max_bytes, file.tag(), "'{}' has {}, more than the limit of {}",
                    path, format_bytes(file.size()), format_bytes(max_bytes));
  bytes.resize(static_cast<size_t>(file.size()));
  file.read(0, std::as_writable_bytes(std::span(bytes)));
}

std::vector<uint8_t> read_file(const std::string& path, int64_t max_bytes) {
  std::vector<uint8_t> bytes;
  read_file(path, max_bytes, bytes);
  return bytes;
}

}  // namespace brim::data
