// Ways to run a GPU's kernels again that must give the same bits. Internal to checker.cc.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace brim::testing {

using RunSo = std::function<void(const std::function<void()>&)>;

/// On a GPU once more, as it comes. Where kernels are emulated, with the threads of a block
/// backward and shuffled between barriers.
std::vector<std::pair<const char*, RunSo>> other_thread_orders();

}  // namespace brim::testing
