// What an exception that was caught by `catch (...)` has to say, for who adds to it. Where only
// brim's own errors are meant, catch `Error` (base/error.h) and ask it.
#pragma once

#include <exception>
#include <string>

namespace brim {

/// `what()` of it; for one that has none, a text that says so. `error` is not null.
inline std::string exception_text(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception without a text";
  }
}

}  // namespace brim
