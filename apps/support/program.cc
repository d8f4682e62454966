#include "brim/apps/support/program.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

#include "brim/base/error.h"
#include "brim/base/stop.h"
#include "brim/apps/support/output.h"
#include "brim/apps/support/stop_signal.h"

namespace brim::apps {
namespace {

void stand_where_the_person_stands() {
  // `bazel run` starts programs elsewhere and leaves the person's folder here.
  if (const char* folder = std::getenv("BUILD_WORKING_DIRECTORY"))
    if (chdir(folder) != 0) raise<FileError>("folder", "cannot enter {}", folder);
}

int fail(const App& app, const std::string& message, int code) {
  std::cout.flush();
  std::cerr << app.program() << ": " << shown(message) << std::endl;
  return code;
}

/// `fmt::print` has an exception of its own for it.
std::string why_output_is_lost() {
  try {
    check_output();
    return "";
  } catch (const FileError& error) {
    return error.what();
  }
}

/// What the exception in hand has to say. Those of libraries speak of their own affairs.
std::string text_of_exception() {
  try {
    throw;
  } catch (const Error& error) {
    return error.what();
  } catch (const FlagError& error) {
    return error.what();
  } catch (const Stopped& stopped) {
    return stopped.message;
  } catch (const Stop&) {
    return fmt::format("stopped by {} before it was done", StopSignal::name());
  } catch (const std::bad_alloc&) {
    return "out of memory: the machine has no more for this program";
  } catch (const std::length_error&) {
    return "out of memory: something is larger than any memory";
  } catch (const std::filesystem::filesystem_error& error) {
    return fmt::format("cannot use '{}': {}", error.path1().string(), error.code().message());
  } catch (const std::system_error& error) {
    if (std::string lost = why_output_is_lost(); !lost.empty()) return lost;
    return fmt::format("the system refused something: {}", error.code().message());
  } catch (const nlohmann::json::exception& error) {
    return fmt::format("a text in JSON is not as it should be (number {})", error.id);
  } catch (const std::exception& error) {
    return fmt::format("an error that nobody expected, please report it: {}", error.what());
  } catch (...) {
    return "an error that nobody expected, please report it";
  }
}

void run(App& app, int argc, char** argv, const std::function<void()>& body) {
  if (!app.parse(argc, argv)) return check_output();
  stand_where_the_person_stands();
  const StopSignal signals;
  const StopAsked asked = &StopSignal::requested;
  const StopScope may_stop(&asked);
  try {
    body();
  } catch (const DoesNotFit&) {
    check_output();  // an answer that nobody read is none
    throw;
  }
  check_output();
}

}  // namespace

int run_program(App& app, int argc, char** argv, const std::function<void()>& body) {
  keep_standard_descriptors();
  try {
    run(app, argc, argv, body);
    return 0;
  } catch (const DoesNotFit& refusal) {
    return fail(app, refusal.message, 2);
  } catch (...) {
    return fail(app, text_of_exception(), 1);
  }
}

}  // namespace brim::apps
