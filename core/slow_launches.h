// Launches on GPUs that went a slower way than the op has there, since a library or the table of
// kernels had nothing for the call: counted for the whole program, so that a run says at its end
// what it was slow for. Nothing of the CPU, where such ways are chosen on purpose.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace brim {

struct SlowLaunches {
  std::string op;   ///< the kernel's name
  std::string way;  ///< "widened to float32"
  int64_t count = 0;

  friend bool operator==(const SlowLaunches&, const SlowLaunches&) = default;
};

/// Thread safe.
void note_slow_launch(std::string_view op, std::string_view way);

/// So far, by op and way.
std::vector<SlowLaunches> slow_launches();

/// "conv2d widened to float32 in 12 launches, matmul by a plain kernel in 1 launch"; "" for none.
std::string to_string(const std::vector<SlowLaunches>& launches);

}  // namespace brim
