// Which instructions brim's own kernels work with. They are compiled for each set in this list, and
// when a program starts the best one that its processor has is taken for all of them; another set
// may add in another order, so that results differ in their last bits. oneDNN chooses for itself
// (ONEDNN_MAX_CPU_ISA), and so do other libraries. Everything outside of kernels needs x86-64-v3:
// on a processor without it, a program with kernels says so before main and ends with status 1. A
// build for one set alone (--define=brim_kernels) needs that set.
#pragma once

#include <string_view>

namespace brim {

/// Levels of the x86-64 psABI: v3 has AVX2 and FMA, v4 AVX-512 (F, BW, CD, DQ, VL).
enum class Instructions { x86_64_v3, x86_64_v4 };

/// `x86-64-v3`.
std::string_view to_string(Instructions instructions);

/// The most that both this processor and this build have.
Instructions best_instructions();

/// The least that this build has kernels for.
Instructions least_instructions();

/// What kernels work with, decided at the first call, before main: the environment's
/// BRIM_INSTRUCTIONS, or the best. Where the variable is wrong, the program ends with status 1 and
/// the text of `choose_instructions`, as there nothing can be caught.
Instructions instructions();

/// The set that `wanted` names, or `best` where it is empty. Throws `ValueError` for a name that
/// is none, for more than `best` and for less than `least`.
Instructions choose_instructions(std::string_view wanted, Instructions best,
                                 Instructions least);

}  // namespace brim
