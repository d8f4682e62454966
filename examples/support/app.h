// The flags of a program: their names, what --help says of them, and where their values go. CLI11
// parses them; app.cc alone includes it, as it takes seconds to compile.
#pragma once

#include <cstdint>
#include <deque>
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

namespace brim::examples {

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

/// One of them, to say more of it.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}

  /// What stands for the value in --help; "" for nothing.
  Flag& type_name(const std::string& name);
  Flag& description(const std::string& text);
  Flag& check(const FlagCheck& check);
  /// --help shows the value that it has now.
  Flag& shows_default();
  Flag& required();
  /// Values come together, each time one, or several with `delimiter` between them.
  Flag& may_repeat(char delimiter = '\0');
  /// --x alone is --x with an empty value.
  Flag& value_may_lack();

 private:
  CLI::Option* option_;
};

class App {
 public:
  explicit App(const std::string& purpose = "", const std::string& program = "");
  ~App();
  App(const App&) = delete;
  App& operator=(const App&) = delete;

  const std::string& program() const { return program_; }

  /// A flag with a value, or an argument where `name` has no dashes. Parsing fills in `value`,
  /// which must outlive it: a string, a whole number of 32 or 64 bits, a float, a double, one that
  /// may be missing, or a list of strings.
  template <class T>
  Flag& add_option(const std::string& name, T& value, const std::string& description);
  /// `take` is called with the text as it is parsed; what it throws comes out of `parse`.
  Flag& add_option(const std::string& name, std::function<void(const std::string&)> take,
                   const std::string& description);
  /// Without a value: "--x", or "--x,!--no-x".
  Flag& add_flag(const std::string& name, bool& value, const std::string& description);
  Flag& add_flag(const std::string& name, std::optional<bool>& value,
                 const std::string& description);
  /// One that was added.
  Flag& get(const std::string& name);

  /// What stands at the end of --help.
  void footer(const std::string& text);
  /// Of flags that are added from here on and given twice the last counts, so that a script can
  /// append to a list.
  void take_last();

  /// Fills in all values. False where --help was asked for, and printed. Throws `FlagError`, which
  /// names the flag.
  bool parse(int argc, const char* const* argv);
  /// The same of a line, split at blanks.
  bool parse(const std::string& line);

 private:
  Flag& kept(CLI::Option* option) { return flags_.emplace_back(option); }
  bool guarded(const std::function<void()>& parse);

  std::string program_;
  std::unique_ptr<CLI::App> app_;
  std::deque<Flag> flags_;
};

}  // namespace brim::examples
