#include "brim/examples/support/program.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <vector>

#include "brim/base/error.h"
#include "brim/base/nearest.h"

namespace brim::examples {
namespace {

std::vector<std::string> flag_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// CLI11 reports a mistyped flag with everything that followed it: name the flag itself.
std::string describe_extras(const CLI::App& app, const std::vector<std::string>& extras) {
  for (const std::string& extra : extras)
    if (extra.starts_with("-") && extra != "-") {
      std::string flag = extra.substr(0, extra.find('='));
      return fmt::format("unknown flag {}{}", flag, did_you_mean(flag, flag_names(app)));
    }
  return "unexpected argument '" + extras.front() + "'";
}

void stand_where_the_person_stands() {
  // `bazel run` starts programs elsewhere and leaves the person's folder here.
  if (const char* folder = std::getenv("BUILD_WORKING_DIRECTORY"))
    if (chdir(folder) != 0) raise<FileError>("folder", "cannot enter {}", folder);
}

int fail(const CLI::App& app, const std::string& message, int code) {
  std::cout.flush();
  std::cerr << app.get_name() << ": " << message << std::endl;
  return code;
}

}  // namespace

int run_program(CLI::App& app, int argc, char** argv, const std::function<void()>& body) {
  app.allow_extras();
  app.get_formatter()->column_width(34);
  try {
    app.parse(argc, argv);
    if (auto extras = app.remaining(); !extras.empty())
      return fail(app, describe_extras(app, extras), 1);
    stand_where_the_person_stands();
    body();
    return 0;
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return 0;
  } catch (const CLI::ParseError& error) {
    return fail(app, error.what(), 1);
  } catch (const DoesNotFit& refusal) {
    return fail(app, refusal.message, 2);
  } catch (const Stopped& stopped) {
    return fail(app, stopped.message, 1);
  } catch (const std::exception& error) {
    return fail(app, error.what(), 1);
  }
}

}  // namespace brim::examples
