// The sources of the library as data: no folder includes one below it or what another hides, and
// what programs include pulls in neither how kernels work nor the headers of another library.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

// The design's order. bazel/brim.bzl has it too, for what BUILD files may depend on.
const Lines kLayers = {"base", "memory", "core", "io",     "autograd", "ops",
                       "nn",   "optim",  "data", "shrink", "train",    "budget"};

// Their headers cost seconds of compile time, and programs would have to install them.
const std::regex kForbidden(
    R"((Eigen/|unsupported/Eigen/|dnnl|oneapi/|cuda|cudnn|cublas|curand|nccl|nvtx|nlohmann/).*|)"
    R"(device_launch_parameters\.h|driver_types\.h|CLI/.*|(jpeglib|turbojpeg|png)\.h|doctest/.*)");

/// Text by path, "core/tensor.h"; paths of the headers that programs may include.
struct Sources {
  std::map<std::string, std::string> text;
  std::set<std::string> public_headers;
};

/// What a file includes, without the quotes or brackets.
struct Includes {
  Lines ours;    // "core/tensor.h" for "brim/core/tensor.h"
  Lines others;  // "vector"
};

Includes includes_of(const std::string& text) {
  static const std::regex directive(R"re((?:^|\n)[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">])re");
  Includes found;
  for (std::sregex_iterator it(text.begin(), text.end(), directive), end; it != end; ++it) {
    std::string name = (*it)[1];
    if (name.starts_with("brim/"))
      found.ours.push_back(name.substr(5));
    else
      found.others.push_back(name);
  }
  return found;
}

/// The position of a file's folder in the order, or -1: "brim.h" is in none, nor are tests.
int layer(const std::string& path) {
  auto found = std::ranges::find(kLayers, path.substr(0, path.find('/')));
  return path.find('/') == std::string::npos || found == kLayers.end()
             ? -1
             : static_cast<int>(found - kLayers.begin());
}

/// Includes of folders below the file's own, or of what is in no folder of the library.
void find_upward(const Sources& sources, Lines& faults) {
  for (const auto& [path, text] : sources.text) {
    if (layer(path) < 0) continue;
    for (const std::string& name : includes_of(text).ours)
      if (layer(name) < 0 || layer(name) > layer(path))
        faults.push_back(path + " includes " + name + ", which lies below it");
  }
}

/// Hidden from programs, not from the folders below: what reads files of any format, and what
/// kernels of all folders share.
bool is_for_the_library(const std::string& header) {
  return header.starts_with("io/") || header.starts_with("base/cuda/") ||
         header.starts_with("core/cuda/");
}

/// Includes of headers that another folder keeps to itself.
void find_intrusions(const Sources& sources, Lines& faults) {
  for (const auto& [path, text] : sources.text)
    for (const std::string& name : includes_of(text).ours)
      if (layer(path) > layer(name) && sources.text.contains(name) &&
          !sources.public_headers.contains(name) && !is_for_the_library(name))
        faults.push_back(path + " includes " + name + ", which is internal");
}

/// Follows the includes of public headers through all of brim's.
void find_forbidden(const Sources& sources, Lines& faults) {
  for (const std::string& start : sources.public_headers) {
    std::map<std::string, std::string> chain = {{start, start}};  // how each header was reached
    Lines open = {start};
    while (!open.empty()) {
      std::string path = open.back();
      open.pop_back();
      auto source = sources.text.find(path);
      if (source == sources.text.end()) {
        faults.push_back(chain[path] + ": there is no such header");
        continue;
      }
      Includes includes = includes_of(source->second);
      for (const std::string& name : includes.others)
        if (std::regex_match(name, kForbidden)) faults.push_back(chain[path] + " > <" + name + ">");
      for (const std::string& name : includes.ours) {
        if (!sources.public_headers.contains(name))
          faults.push_back(chain[path] + " > " + name + ", which is internal");
        if (chain.emplace(name, chain[path] + " > " + name).second) open.push_back(name);
      }
    }
  }
}

Lines find_faults(const Sources& sources) {
  Lines faults;
  find_upward(sources, faults);
  find_intrusions(sources, faults);
  find_forbidden(sources, faults);
  return faults;
}

std::string text_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// The sources as the build hands them to the test.
Sources library() {
  Sources sources;
  auto add = [&](const fs::path& file) {
    static const std::set<std::string> endings = {".h", ".cc", ".cu", ".cuh"};
    if (endings.contains(file.extension().string()))
      sources.text[file.lexically_normal().string()] = text_of(file);
  };
  add("brim.h");
  for (const std::string& name : kLayers)
    if (fs::is_directory(name))
      for (const auto& entry : fs::recursive_directory_iterator(name)) add(entry.path());
  std::ifstream list("tests/layers/public_headers.txt");
  for (std::string line; std::getline(list, line);) sources.public_headers.insert(line);
  return sources;
}

std::string joined(const Lines& lines) {
  std::string all;
  for (const std::string& line : lines) all += "\n  " + line;
  return all;
}

}  // namespace

TEST_CASE("layers: no source includes a folder below its own, or what is hidden from it") {
  Sources sources = library();
  // Were the sources missing or the pattern wrong, nothing would be found for ever.
  for (const char* path : {"brim.h", "base/error.h", "ops/onednn.cc", "ops/cpu/conv2d.cc"})
    REQUIRE(sources.text.contains(path));
  for (const char* path : {"brim.h", "core/launch.h", "autograd/op.h", "ops/conv2d.h"})
    REQUIRE(sources.public_headers.contains(path));
  for (const char* path :
       {"ops/onednn.h", "ops/cpu/register.h", "data/codecs.h", "autograd/rebuild.h"})
    REQUIRE(!sources.public_headers.contains(path));
  Includes onednn = includes_of(sources.text["ops/onednn.cc"]);
  REQUIRE(std::ranges::count(onednn.ours, "ops/onednn.h") == 1);
  REQUIRE(std::ranges::any_of(onednn.others,
                              [](auto& name) { return std::regex_match(name, kForbidden); }));
  Lines faults = find_faults(sources);
  CHECK_MESSAGE(faults.empty(), joined(faults));
}

namespace {

// A library without a fault, to plant some in.
Sources sound() {
  return {.text = {{"brim.h", "#include \"brim/nn/layer.h\"\n"},
                   {"base/error.h", "#include <string>\n// #include <cuda.h>\n"},
                   {"core/tensor.h", "#pragma once\n#include \"brim/base/error.h\"\n"},
                   {"nn/layer.h", "#include \"brim/core/tensor.h\"\n"},
                   {"ops/cpu/relu.cc", "#include <dnnl.hpp>\n#include \"brim/core/tensor.h\"\n"}},
          .public_headers = {"brim.h", "base/error.h", "core/tensor.h", "nn/layer.h"}};
}

void plant(Sources& sources, const std::string& path, const std::string& line) {
  sources.text[path] += line + "\n";
}

Lines faults_with(const std::string& path, const std::string& line) {
  Sources sources = sound();
  plant(sources, path, line);
  return find_faults(sources);
}

}  // namespace

TEST_CASE("layers: planted includes are found, each with its way") {
  REQUIRE(find_faults(sound()).empty());
  CHECK(faults_with("core/tensor.h", "#include \"brim/nn/layer.h\"") ==
        Lines{"core/tensor.h includes nn/layer.h, which lies below it"});
  CHECK(faults_with("ops/cpu/relu.cc", "  #  include \"brim/train/trainer.h\"") ==
        Lines{"ops/cpu/relu.cc includes train/trainer.h, which lies below it"});
  CHECK(faults_with("ops/cpu/relu.cc", "#include \"brim/tests/support/op_spec.h\"") ==
        Lines{"ops/cpu/relu.cc includes tests/support/op_spec.h, which lies below it"});
  CHECK(faults_with("ops/cpu/relu.cc", "#include \"brim/brim.h\"") ==
        Lines{"ops/cpu/relu.cc includes brim.h, which lies below it"});
  for (std::string header :
       {"Eigen/Core", "dnnl.hpp", "oneapi/dnnl/dnnl.h", "cuda_runtime_api.h", "cudnn.h",
        "cublasLt.h", "nlohmann/json.hpp", "nlohmann/json_fwd.hpp", "jpeglib.h", "png.h"})
    CHECK(faults_with("nn/layer.h", "#include <" + header + ">") ==
          Lines{"brim.h > nn/layer.h > <" + header + ">", "nn/layer.h > <" + header + ">"});
}

TEST_CASE("layers: an internal header hides behind no other") {
  Sources sources = sound();
  plant(sources, "core/tensor.h", "#include \"brim/core/detail.h\"");
  plant(sources, "core/detail.h", "#include <dnnl.h>");
  Lines faults = find_faults(sources);
  for (std::string way : {"brim.h > nn/layer.h > core/tensor.h", "core/tensor.h"}) {
    CHECK(std::ranges::count(faults, way + " > core/detail.h, which is internal") == 1);
    CHECK(std::ranges::count(faults, way + " > core/detail.h > <dnnl.h>") == 1);
  }
  CHECK(faults_with("nn/layer.h", "#include \"brim/nn/missing.h\"").size() == 4);
}

TEST_CASE("layers: a folder keeps to itself what it hides, unless it is for all") {
  const Lines hidden = {"core/detail.h", "core/cuda/error.h", "io/plain_text.h"};
  Sources sources = sound();
  for (const std::string& header : hidden) {
    plant(sources, header, "#pragma once");
    for (const char* path : {"io/npy.cc", "ops/cpu/relu.cc"})
      plant(sources, path, "#include \"brim/" + header + "\"");
  }
  plant(sources, "core/tensor.cc", "#include \"brim/core/detail.h\"");  // its own
  CHECK(find_faults(sources) == Lines{"io/npy.cc includes core/detail.h, which is internal",
                                      "ops/cpu/relu.cc includes core/detail.h, which is internal"});
}
