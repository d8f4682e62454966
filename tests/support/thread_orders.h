// Ways to run a GPU's kernels again that must give the same bits, and one that need not. Internal to
// checker.cc.
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

/// Libraries choose algorithms by the alignment of what they get, so that inputs off the boundary
/// may have other last bits. Not where kernels are emulated: there are no libraries.
bool libraries_see_alignment();

}  // namespace brim::testing
