// The main() of <name>_replay: gives every file below the folders named on the command line
// to the fuzz target. Passes when none of them crashes it, and there is one in each folder.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

std::vector<std::uint8_t> read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace

int main(int argc, char** argv) {
  LLVMFuzzerTestOneInput(nullptr, 0);
  int inputs = 1;
  for (int i = 1; i < argc; ++i) {
    int before = inputs;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (!entry.is_regular_file()) continue;
      const std::vector<std::uint8_t> bytes = read(entry.path());
      LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
      ++inputs;
    }
    if (inputs == before) {
      std::fprintf(stderr, "no input in %s\n", argv[i]);
      return 1;
    }
  }
  std::printf("replayed %d inputs\n", inputs);
  return 0;
}
