// Proves that a folder of checkpoints has one writer, and any number of readers; and that a
// training may go on with settings that somebody says may differ.
#include <doctest/doctest.h>

#include "brim/tests/train/checkpointed_training.h"

using namespace brim;
using namespace brim::testing;

TEST_CASE("a second training is refused while the first lives, and its files stay") {
  TwoCheckpoints two;
  std::ofstream(two.folder.path() + "/step-00000009.safetensors.tmp-1-2") << "being written";
  const Names before = names_in(two.folder.path());
  const std::string text =
      error_text<FileError>([&] { Checkpoints other(two.folder.path(), options_of()); });
  CAPTURE(text);
  CHECK(contains(text, "checkpoints: '" + two.folder.path() + "' is in use by process "));
  CHECK(names_in(two.folder.path()) == before);
  CHECK_THROWS_AS(lock_checkpoints(two.folder.path()), FileError);
  // Who only reads needs no lock.
  CHECK(newest_checkpoint_in(two.folder.path()).checkpoint.value().path == two.paths[1]);
}

TEST_CASE("a lock that was taken before is the one of the checkpoints") {
  TempFolder folder;
  {
    auto lock = lock_checkpoints(folder.path() + "/a");
    Checkpoints one(folder.path() + "/a", {.lock = lock});
    CHECK(one.lock() == lock);
    lock.reset();
    CHECK_THROWS_AS(Checkpoints(folder.path() + "/a", {}), FileError);
  }
  Checkpoints next(folder.path() + "/a", {});
  CHECK(next.lock()->why_open() == "");
}

TEST_CASE("a setting that differs is refused with a reason, or taken") {
  TwoCheckpoints two;
  std::optional<std::string> answer;
  std::vector<std::string> asked;
  Checkpoints other(two.folder.path(),
                    {.identity = {{"batch", "32"}, {"model", "small"}},
                     .why_not =
                         [&](const Checkpoint& found, const std::string& name) {
                           asked.push_back(name + " " + found.identity.at(name) + " " + found.path);
                           return answer;
                         },
                     .lock = two.checkpoints.lock()});
  CHECK(other.newest().checkpoint.value().path == two.paths[1]);
  CHECK(asked == Names{"batch 64 " + two.paths[1]});
  answer = "there is no room";
  CHECK(contains(error_text<FileError>([&] { other.newest(); }),
                 R"(its batch is "64", but "32" here; there is no room)"));
  answer = "";
  CHECK(error_text<FileError>([&] { other.newest(); }).ends_with(R"(but "32" here)"));
}
