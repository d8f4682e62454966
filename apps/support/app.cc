#include "brim/apps/support/app.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <utility>

#include "brim/base/nearest.h"

namespace brim::apps {
namespace {

/// What a flag's checks take, as they say it; "" for nothing.
std::string range_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t colon = type.find(':');
  return colon == type.npos ? "" : type.substr(colon + 1);
}

/// --help with what an option takes at the end of its description.
class Help : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = Formatter::make_option_opts(option);
    const std::string range = ":" + range_of(*option);
    if (const size_t at = text.find(range); range != ":" && at != text.npos)
      text.erase(at, range.size());
    return text;
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    const std::string text = Formatter::make_option_desc(option), range = range_of(*option);
    return text + (text.empty() || range.empty() ? "" : "; ") + range;
  }
};

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

}  // namespace

Flag Flag::type_name(const std::string& name) const {
  option_->type_name(name);
  return *this;
}

Flag Flag::description(const std::string& text) const {
  option_->description(text);
  return *this;
}

Flag Flag::check(const FlagCheck& check) const {
  option_->check(CLI::Validator([fault = check.fault](std::string& text) { return fault(text); },
                                check.range));
  return *this;
}

Flag Flag::shows_default() const {
  option_->capture_default_str();
  return *this;
}

Flag Flag::required() const {
  option_->required();
  return *this;
}

Flag Flag::may_repeat(char delimiter) const {
  if (delimiter != '\0') option_->delimiter(delimiter);
  option_->allow_extra_args(false)->take_all();
  return *this;
}

Flag Flag::value_may_lack() const {
  option_->expected(0, 1)->trigger_on_parse();
  return *this;
}

App::App(const std::string& purpose, const std::string& program)
    : app_(std::make_unique<CLI::App>(purpose, program)) {
  app_->allow_extras();
  app_->formatter(std::make_shared<Help>());
  app_->get_formatter()->column_width(34);
}

App::~App() = default;

const std::string& App::program() const { return app_->get_name(); }

template <class T>
Flag App::add_option(const std::string& name, T& value, const std::string& description) {
  return Flag(app_->add_option(name, value, description));
}

template Flag App::add_option(const std::string&, std::string&, const std::string&);
template Flag App::add_option(const std::string&, int&, const std::string&);
template Flag App::add_option(const std::string&, int64_t&, const std::string&);
template Flag App::add_option(const std::string&, uint64_t&, const std::string&);
template Flag App::add_option(const std::string&, float&, const std::string&);
template Flag App::add_option(const std::string&, double&, const std::string&);
template Flag App::add_option(const std::string&, std::optional<double>&, const std::string&);
template Flag App::add_option(const std::string&, std::vector<std::string>&, const std::string&);
template Flag App::add_option(const std::string&, std::vector<int>&, const std::string&);

Flag App::add_option(const std::string& name, std::function<void(const std::string&)> take,
                     const std::string& description) {
  return Flag(app_->add_option_function<std::string>(name, std::move(take), description));
}

Flag App::add_flag(const std::string& name, bool& value, const std::string& description) {
  return Flag(app_->add_flag(name, value, description));
}

// CLI11 would make an optional that is bound to a flag false where it is not given.
Flag App::add_flag(const std::string& name, std::optional<bool>& value,
                   const std::string& description) {
  return Flag(app_->add_flag_function(
      name, [&value](int64_t given) { value = given > 0; }, description));
}

Flag App::get(const std::string& name) const { return Flag(app_->get_option(name)); }

void App::footer(const std::string& text) { app_->footer(text); }

void App::take_last() { app_->option_defaults()->take_last(); }

bool App::guarded(const std::function<void()>& parse) {
  try {
    parse();
  } catch (const CLI::CallForHelp&) {
    std::cout << app_->help();
    return false;
  } catch (const CLI::Error& error) {
    throw FlagError(error.what());
  }
  if (const std::vector<std::string> extras = app_->remaining(); !extras.empty())
    throw FlagError("flags: " + describe_extras(*app_, extras));
  return true;
}

bool App::parse(int argc, const char* const* argv) {
  return guarded([&] { app_->parse(argc, argv); });
}

bool App::parse(const std::string& line) {
  return guarded([&] { app_->parse(line); });
}

}  // namespace brim::apps
