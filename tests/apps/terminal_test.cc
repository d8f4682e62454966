// Live progress as a person sees it: the train program on a terminal.
#include <doctest/doctest.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace {

constexpr int kColumns = 60;

struct Session {
  int code = -1;
  std::string text;  // standard output and error, as the terminal gets them
};

Session train_on_terminal(const std::string& arguments) {
  winsize size{.ws_row = 24, .ws_col = kColumns, .ws_xpixel = 0, .ws_ypixel = 0};
  int terminal = -1;
  pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  REQUIRE(child >= 0);
  if (child == 0) {
    std::string command = "exec apps/train " + arguments;
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  Session session;
  char buffer[4096];
  // At the end of the child read fails with EIO.
  for (ssize_t n; (n = read(terminal, buffer, sizeof buffer)) > 0;)
    session.text.append(buffer, static_cast<size_t>(n));
  close(terminal);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (WIFEXITED(status)) session.code = WEXITSTATUS(status);
  return session;
}

// The lines, each as the states that were drawn over each other in it.
std::vector<std::vector<std::string>> lines_of(const std::string& text) {
  const std::string again = "\r\x1b[K";
  std::vector<std::vector<std::string>> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    std::vector<std::string> states;
    size_t from = 0;
    for (size_t at; (at = line.find(again, from)) != std::string::npos; from = at + again.size())
      states.push_back(line.substr(from, at - from));
    states.push_back(line.substr(from));
    lines.push_back(states);
  }
  return lines;
}

}  // namespace

TEST_CASE("progress is drawn over itself, no wider than the terminal, one line kept an epoch") {
  Session run = train_on_terminal(
      "--data synthetic --model mobilenet_v2 --size 96 --batch 16 --steps 6 --threads 1");
  CAPTURE(run.text);
  CHECK(run.code == 0);
  size_t drawn = 0, kept = 0;
  for (const auto& states : lines_of(run.text)) {
    for (size_t i = 0; i + 1 < states.size(); ++i) {
      CHECK(states[i].size() < kColumns);
      drawn += states[i].find("epoch 1/1  step ") == 0;
    }
    kept += states.back().find("epoch 1/1  loss ") == 0;
  }
  CHECK(drawn >= 1);
  CHECK(kept == 1);
}

TEST_CASE("an error begins on a line of its own, below the progress") {
  // The first step is drawn at once, the second ends in NaN.
  Session run = train_on_terminal(
      "--data synthetic --model mobilenet_v2 --size 96 --batch 16 --steps 6 --threads 1 "
      "--lr 1e30 --schedule constant");
  CAPTURE(run.text);
  CHECK(run.code == 1);
  auto lines = lines_of(run.text);
  auto is_error = [](const auto& states) { return states[0].find("train: ") == 0; };
  auto error = std::ranges::find_if(lines, is_error);
  REQUIRE(error != lines.end());
  REQUIRE(error != lines.begin());
  CHECK(error->size() == 1);
  CHECK((error - 1)->back().find("epoch 1/1  step ") == 0);
}
