#include "brim/apps/support/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <system_error>

#include "brim/base/error.h"
#include "brim/base/utf8.h"

namespace brim::apps {
namespace {

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7F;
}

}  // namespace

void check_output() {
  static int first_error = 0;  // later writes may succeed, or fail for a reason of their own
  const int before = errno;    // of a write that has failed already, where one has
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return;
  if (first_error == 0) first_error = errno != 0 ? errno : before;
  if (first_error == 0) first_error = EIO;
  raise<FileError>("output", "cannot write to standard output: {}",
                   std::generic_category().message(first_error));
}

std::string shown(std::string_view text) {
  std::string result;
  for (char c : escaped_utf8(text))
    if (is_control(c))
      fmt::format_to(std::back_inserter(result), "\\x{:02X}", static_cast<unsigned char>(c));
    else
      result += c;
  return result;
}

void keep_standard_descriptors() {
  int descriptor = 0;
  do {
    // To write to: reading fails. To read from: writing fails, and reading finds the end.
    descriptor = ::open("/dev/null", O_RDONLY);
  } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor >= 0) ::close(descriptor);
}

}  // namespace brim::apps
