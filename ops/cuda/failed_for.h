// Says for what a library's call failed: its own errors name the call and the status.
#pragma once

#include "brim/base/cuda/error.h"

namespace brim::cuda {

/// Throws `error` as an `E`, and what it was for: "cublasLt: cublasLtMatmul failed: ..., for 1
/// float32 product [8,64] by [64,10]".
template <class E>
[[noreturn]] void throw_for(const DeviceError& error, const std::string& what) {
  const std::string text = error.what();  // with its tag, which the new one gets too
  throw E(error.tag(), fmt::format("{}, for {}", text.substr(error.tag().size() + 2), what));
}

/// What `work` returns, which runs what was chosen. Any failure is thrown with what it was for, by
/// `describe`: also that the library has nothing, for then it should not have been chosen. Want of
/// memory stays what it is.
template <class Describe, class Work>
decltype(auto) run_for(const Describe& describe, const Work& work) {
  try {
    return work();
  } catch (const AllocationError&) {
    throw;
  } catch (const DeviceError& error) {
    throw_for<DeviceError>(error, describe());
  }
}

/// The same of `work` that chooses. That the library has nothing is an answer, and stays an
/// `UnsupportedError`; a library that is not there is nobody's failure.
template <class Describe, class Work>
decltype(auto) choose_for(const Describe& describe, const Work& work) {
  try {
    return work();
  } catch (const AllocationError&) {
    throw;
  } catch (const MissingLibraryError&) {
    throw;
  } catch (const UnsupportedError& error) {
    throw_for<UnsupportedError>(error, describe());
  } catch (const DeviceError& error) {
    throw_for<DeviceError>(error, describe());
  }
}

}  // namespace brim::cuda
