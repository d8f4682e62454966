// The flags of a program: their names, what --help says of them, and where their values go. CLI11
// parses them. app.cc alone includes it, because it takes seconds to compile.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace brim::apps {

/// What is wrong with the flags that were given, in one line.
class FlagError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What values a flag takes; see flag_values.h.
struct FlagCheck {
  std::function<std::string(const std::string&)> fault;  ///< of a value; "" where nothing is wrong
  std::string range = {};                                ///< in words, for --help

  std::string operator()(const std::string& value) const { return fault(value); }
};

/// A handle on one flag of an `App`, which must outlive it.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}

  /// What stands for the value in --help; "" for nothing.
  Flag type_name(const std::string& name) const;
  /// What --help says, instead of what was said before.
  Flag description(const std::string& text) const;
  /// Values in which `check` finds a fault are refused, and its range is in --help.
  Flag check(const FlagCheck& check) const;
  /// --help shows the value that it has now.
  Flag shows_default() const;
  /// Parsing fails without it.
  Flag required() const;
  /// All values are taken, one each time, or several with `delimiter` between them.
  Flag may_repeat(char delimiter = '\0') const;
  /// "--x" alone is "--x" with an empty value.
  Flag value_may_lack() const;

 private:
  CLI::Option* option_;
};

/// The flags of one program. They are added, then parsed.
class App {
 public:
  /// `purpose` begins --help, and `program` is the name that errors begin with.
  explicit App(const std::string& purpose = "", const std::string& program = "");
  ~App();
  App(const App&) = delete;
  App& operator=(const App&) = delete;

  const std::string& program() const;

  /// A flag with a value, or an argument where `name` has no dashes. Parsing fills in `value`,
  /// which must outlive it: a string, a whole number of 32 or 64 bits, a float, a double, a double
  /// that may be missing, or a list of strings or of whole numbers.
  template <class T>
  Flag add_option(const std::string& name, T& value, const std::string& description = "");
  /// `take` is called with the text as it is parsed; what it throws comes out of `parse`.
  Flag add_option(const std::string& name, std::function<void(const std::string&)> take,
                  const std::string& description);
  /// A flag without a value: "--x", or "--x,!--no-x". An optional stays empty without it.
  Flag add_flag(const std::string& name, bool& value, const std::string& description);
  Flag add_flag(const std::string& name, std::optional<bool>& value,
                const std::string& description);
  /// The flag of this name, which was added.
  Flag get(const std::string& name) const;

  /// What stands at the end of --help.
  void footer(const std::string& text);
  /// Where a flag that is added from here on is given twice, the last value counts, so that a
  /// script can append to a list of flags.
  void take_last();

  /// Fills in all values. False where --help was asked for, and printed. Throws `FlagError`, which
  /// names the flag.
  bool parse(int argc, const char* const* argv);
  /// Parses a line, split at blanks, in the same way.
  bool parse(const std::string& line);

 private:
  bool guarded(const std::function<void()>& parse);

  std::unique_ptr<CLI::App> app_;
};

}  // namespace brim::apps
