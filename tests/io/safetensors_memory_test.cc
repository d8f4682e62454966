// Proves that opening a safetensors file takes the memory that io/safetensors.h states, whatever
// its header is made of: up to six times the header's length, and 32 MiB. Replaces new and delete
// to see what is held at once.
#include <doctest/doctest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "brim/io/safetensors.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/safetensors_bytes.h"
#include "brim/tests/support/temp_folder.h"

namespace {

std::atomic<size_t> held = 0, most = 0;

}  // namespace

void* operator new(size_t bytes) {
  void* piece = std::malloc(bytes);
  if (piece == nullptr) throw std::bad_alloc();
  size_t now = held += ::malloc_usable_size(piece);
  if (now > most) most = now;
  return piece;
}

void operator delete(void* piece) noexcept {
  if (piece != nullptr) held -= ::malloc_usable_size(piece);
  std::free(piece);
}

void operator delete(void* piece, size_t) noexcept { operator delete(piece); }

using namespace brim;
using testing::error_text;

namespace {

/// Opens a file of this header, or has it refused.
void check_bytes_taken(const std::string& header) {
  testing::TempFolder folder;
  std::string path = folder.write("a", testing::safetensors_bytes(header, 0));
  size_t before = held;
  most = before;
  std::string refusal = error_text<FileError>([&] { io::SafetensorsFile{path}; });
  CAPTURE(refusal);
  CAPTURE(header.size());
  size_t taken = most - before;
  CHECK(taken >= header.size());
  CHECK(taken <= 6 * header.size() + (32 << 20));
}

/// "0000":value,"0001":value, ... with names of at least `length` digits.
std::string entries(int count, int length, const std::string& value) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += fmt::format("{}\"{:0{}}\":{}", i > 0 ? "," : "", i, length, value);
  return text;
}

const std::string kTensor = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";

}  // namespace

TEST_CASE("one long string") {
  // Just above a power of two, where what grows by doubling has most to spare.
  for (size_t length : {(size_t{1} << 24) - 100, (size_t{1} << 24) + 1, size_t{20'000'000}}) {
    check_bytes_taken(R"({"__metadata__":{"k":")" + std::string(length, 'v') + "\"}}");
    check_bytes_taken("{\"" + std::string(length, 'v') + "\":1}");  // too long for a name
  }
}

TEST_CASE("strings as long as can be, as many as can be") {
  check_bytes_taken("{" + entries(20'000, 1000, kTensor) + "}");
  check_bytes_taken("{\"__metadata__\":{" +
                    entries(10'000, 1000, "\"" + std::string(1100, 'v') + "\"") + "}}");
}

TEST_CASE("tiny entries, as many as can be") {
  check_bytes_taken("{\"__metadata__\":{" + entries(10'000, 1, "\"\"") + "}," +
                    entries(100'000, 1, kTensor) + "}");
}
