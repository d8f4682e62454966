// Typed errors. Every error that a caller can cause is an `Error` whose text is
// "<tag>: <what was expected, and the values that were got>". The tag is the op, function or
// program part that refused. Catch the subclass that you can handle; catch `Error` for all.
// A broken promise of brim's own code throws `InternalError`: please report those.
#pragma once

#include <fmt/core.h>

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace brim {

class Error : public std::runtime_error {
 public:
  Error(std::string_view tag, std::string_view message)
      : std::runtime_error(std::string(tag) + ": " + std::string(message)), tag_(tag) {}
  const std::string& tag() const noexcept { return tag_; }

 private:
  std::string tag_;
};

/// Shapes, strides or axes that do not go together.
class ShapeError : public Error {
 public:
  using Error::Error;
};
/// An element type that an op does not take, or two that do not go together.
class DtypeError : public Error {
 public:
  using Error::Error;
};
/// A device that is not there, or tensors on different ones.
class DeviceError : public Error {
 public:
  using Error::Error;
};
/// A file that is missing, unreadable, damaged or not what it says it is.
class FileError : public Error {
 public:
  using Error::Error;
};
/// A value out of its range: a negative rate, a label beyond the classes, a NaN loss.
class ValueError : public Error {
 public:
  using Error::Error;
};
/// The tape cannot do what was asked: a stale saved tensor, a graph that was already freed.
class AutogradError : public Error {
 public:
  using Error::Error;
};
/// A promise of brim's own code is broken.
class InternalError : public Error {
 public:
  using Error::Error;
};

/// Throws `E` with a formatted message: `raise<ShapeError>("relu", "got {}", shape)`.
template <class E, class... Args>
[[noreturn]] void raise(std::string_view tag, fmt::format_string<Args...> format, Args&&... args) {
  throw E(tag, fmt::format(format, std::forward<Args>(args)...));
}

/// Throws `E` unless `ok`. The arguments are formatted only on failure.
template <class E, class... Args>
void expect(bool ok, std::string_view tag, fmt::format_string<Args...> format, Args&&... args) {
  if (!ok) [[unlikely]]
    throw E(tag, fmt::format(format, std::forward<Args>(args)...));
}

/// Internal check, also in release builds; throws `InternalError` with the source line.
inline void check(bool ok, const char* what,
                  std::source_location where = std::source_location::current()) {
  if (!ok) [[unlikely]]
    raise<InternalError>("brim", "{} ({}:{})", what, where.file_name(), where.line());
}

}  // namespace brim
