// Proves that the newest whole checkpoint is found whatever happened to others: files cut short or
// damaged, full disks, folders that went away, writers that were killed.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "brim/io/atomic_file.h"
#include "brim/nn/weights.h"
#include "brim/tests/support/full_disk.h"
#include "brim/tests/train/checkpointed_training.h"

using namespace brim;
using namespace brim::testing;

namespace {

namespace fs = std::filesystem;

void overwrite(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

}  // namespace

TEST_CASE("a file cut short, anywhere, is passed over") {
  TwoCheckpoints two;
  const std::string whole = text_of(two.paths[1]);
  for (size_t length = 0; length < whole.size(); length += length < 64 ? 1 : whole.size() / 50) {
    CAPTURE(length);
    overwrite(two.paths[1], whole.substr(0, length));
    two.check_passed_over("safetensors: ");
  }
  overwrite(two.paths[1], whole.substr(0, whole.size() - 1));
  two.check_passed_over("safetensors: ");
  overwrite(two.paths[1], whole + '\0');
  two.check_passed_over("safetensors: ");
  overwrite(two.paths[1], whole);
  CheckpointedTraining other;
  CHECK(two.checkpoints.load_newest(other.state()).passed_over.empty());
  CHECK(other.bits() == two.second);
}

TEST_CASE("a file with a changed byte, anywhere, is passed over") {
  TwoCheckpoints two;
  const std::string whole = text_of(two.paths[1]);
  for (size_t at = 0; at < whole.size(); at += whole.size() / 300) {
    CAPTURE(at);
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    overwrite(two.paths[1], changed);
    two.check_passed_over();
  }
  // A block of the data that was never written.
  std::string zeroed = whole;
  std::fill(zeroed.end() - 256, zeroed.end(), '\0');
  REQUIRE(zeroed != whole);
  overwrite(two.paths[1], zeroed);
  two.check_passed_over("checkpoints: '" + two.paths[1] + "' is damaged: its checksum");
}

TEST_CASE("what is no checkpoint is passed over") {
  TwoCheckpoints two;
  nn::save_weights(two.training.model, two.paths[1]);
  two.check_passed_over("checkpoints: '" + two.paths[1] +
                        "' is not a whole checkpoint: there is no 'checkpoint.version'");
  fs::remove(two.paths[1]);
  fs::create_symlink("/dev/zero", two.paths[1]);
  CheckpointedTraining other;
  CHECK(two.checkpoints.load_newest(other.state()).passed_over.empty());  // no regular file
}

TEST_CASE("where none is whole nothing is found, and every reason told") {
  TwoCheckpoints two;
  for (const std::string& path : two.paths) overwrite(path, "nothing");
  CheckpointedTraining other;
  auto before = other.bits();
  NewestCheckpoint newest = two.checkpoints.load_newest(other.state());
  CHECK(!newest.checkpoint);
  CHECK(newest.passed_over.size() == 2);
  CHECK(contains(newest.passed_over[1], two.paths[0]));
  CHECK(other.bits() == before);
}

TEST_CASE("a disk that fills up leaves the older checkpoints") {
  TwoCheckpoints two;
  two.training.train(1);
  auto before = two.training.bits();
  std::string text = error_text<FileError>([&] {
    FullDisk full(1000);
    two.checkpoints.save(two.training.state(), {});
  });
  CHECK(contains(text, "cannot write '" + two.folder.path() + "/step-00000003.safetensors'"));
  CHECK(names_in(two.folder.path()) ==
        Names{"step-00000001.safetensors", "step-00000002.safetensors"});
  CHECK(two.training.bits() == before);
  CHECK(two.checkpoints.load_newest(two.training.state()).checkpoint->path == two.paths[1]);
  CHECK(two.training.bits() == two.second);
}

TEST_CASE("a folder that goes away is named") {
  TwoCheckpoints two;
  fs::remove_all(two.folder.path());
  CHECK(contains(error_text<FileError>([&] { two.checkpoints.save(two.training.state(), {}); }),
                 two.paths[1]));
  CHECK(contains(error_text<FileError>([&] { two.checkpoints.newest(); }),
                 "cannot read the folder '" + two.folder.path() + "'"));
}

TEST_CASE("what a killed writer left is removed, and nothing of others") {
  TwoCheckpoints two;
  pid_t writer = ::fork();
  REQUIRE(writer >= 0);
  if (writer == 0) {
    io::AtomicFile file(two.folder.path() + "/step-00000003.safetensors", "test");
    file.write(std::as_bytes(std::span("half")));
    ::_exit(0);
  }
  REQUIRE(::waitpid(writer, nullptr, 0) == writer);
  CHECK(names_in(two.folder.path()).size() == 3);
  const Names others{"best.safetensors.tmp-1-2", "step-00000003.safetensors.tmp-1",
                     "step-3.safetensors.tmp-1-2"};
  for (const std::string& name : others) two.folder.write(name, {});
  Checkpoints again(two.folder.path(), options_of(/*keep=*/3, &two.checkpoints));
  Names expected = others;
  for (const char* name : {"step-00000001.safetensors", "step-00000002.safetensors"})
    expected.emplace_back(name);
  std::ranges::sort(expected);
  CHECK(names_in(two.folder.path()) == expected);
}

TEST_CASE("damaged files stay, and no whole one goes for them") {
  TempFolder folder;
  CheckpointedTraining training;
  auto save = [&](const Checkpoints& checkpoints, int64_t updates) {
    training.step->set_updates(updates);
    return checkpoints.save(training.state(), {});
  };
  auto path = [&](int updates) {
    return fmt::format("{}/step-{:08}.safetensors", folder.path(), updates);
  };
  const Checkpoints before(folder.path(), options_of(/*keep=*/5));
  for (int64_t updates : {1, 2, 7, 8, 9}) save(before, updates);
  for (int damaged : {7, 8, 9}) fs::resize_file(path(damaged), fs::file_size(path(damaged)) / 2);

  const Checkpoints checkpoints(folder.path(), options_of(/*keep=*/2, &before));
  SUBCASE("found when it was loaded") {
    CHECK(checkpoints.load_newest(training.state()).checkpoint->updates == 2);
  }
  SUBCASE("found when it was looked for") { CHECK(checkpoints.newest().passed_over.size() == 3); }
  save(checkpoints, 3);
  CHECK(checkpoints.files() == Names{path(9), path(8), path(7), path(3), path(2)});
  save(checkpoints, 4);
  CHECK(checkpoints.files() == Names{path(9), path(8), path(7), path(4), path(3)});
  CHECK(checkpoints.newest().checkpoint->path == path(4));
  // Written anew it is whole, and counts.
  save(checkpoints, 8);
  CHECK(checkpoints.files() == Names{path(9), path(8), path(7), path(4)});
  save(checkpoints, 10);
  CHECK(checkpoints.files() == Names{path(10), path(9), path(8), path(7)});
  // What was once seen to be damaged is so behind a whole one too.
  CHECK(checkpoints.newest().passed_over.empty());
  save(checkpoints, 11);
  CHECK(checkpoints.files() == Names{path(11), path(10), path(9), path(7)});
}

TEST_CASE("where all files are damaged a training that begins anew keeps its own") {
  TwoCheckpoints two;
  for (const std::string& path : two.paths) overwrite(path, "nothing");
  const Checkpoints checkpoints(two.folder.path(), options_of(/*keep=*/1, &two.checkpoints));
  CheckpointedTraining training;
  REQUIRE(!checkpoints.load_newest(training.state()).checkpoint);
  training.train(1);
  const std::string first = checkpoints.save(training.state(), {});  // in the place of one of them
  CHECK(checkpoints.files() == Names{two.paths[1], first});
  CHECK(checkpoints.newest().checkpoint->path == first);
}
