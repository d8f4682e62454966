// Proves that a training goes on from a checkpoint with the same bits, and that the newest stay, at
// no cost of the account in force.
#include "brim/train/checkpoint.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <limits>

#include "brim/tests/train/checkpointed_training.h"

using namespace brim;
using namespace brim::testing;

TEST_CASE("a training goes on with the same bits") {
  for (const char* optimizer : {"plain", "sgd", "adamw"})
    for (bool ema : {true, false}) {
      CAPTURE(optimizer);
      CAPTURE(ema);
      TempFolder folder;
      Checkpoints checkpoints(folder.path(), options_of());
      CheckpointedTraining whole({.optimizer = optimizer, .ema = ema});
      whole.train(3);
      checkpoints.save(whole.state(), {});
      auto saved = whole.bits();
      whole.train(3);

      CheckpointedTraining resumed({.optimizer = optimizer, .ema = ema, .seed = 8});
      resumed.train(1);
      REQUIRE(resumed.bits() != saved);
      NewestCheckpoint newest = checkpoints.load_newest(resumed.state());
      REQUIRE(newest.checkpoint);
      CHECK(newest.checkpoint->updates == 3);
      CHECK(newest.passed_over.empty());
      CHECK(resumed.bits() == saved);
      CHECK(resumed.step->updates() == 3);
      CHECK(resumed.optimizer->steps() == 3);
      resumed.train(3);
      CHECK(resumed.bits() == whole.bits());
    }
}

TEST_CASE("progress and notes come back exactly, also without a model") {
  using Limits = std::numeric_limits<double>;
  TempFolder folder;
  Checkpoints checkpoints(folder.path(), options_of());
<<<<<<< HEAD
  CheckpointedTraining training;
  const io::Metadata notes{{"plan", "{\"a\": [1]}"}, {"micro-batch", "8"}, {"empty", ""}};
=======
  Training training;
  const io::Metadata notes{{"budget", "{\"a\": [1]}"}, {"micro-batch", "8"}, {"empty", ""}};
>>>>>>> 2c096f0f9c1421115ee926912cc2c2926fa7882b
  checkpoints.set_notes(notes);
  for (double value : {0.1, 1.0 / 3, -0.0, 1e300, -2.5, Limits::max(), Limits::denorm_min(),
                       Limits::min(), std::nextafter(1.0, 2.0)}) {
    const TrainingProgress progress{.epoch = 3,
                                    .batch = 7,
                                    .loss_sum = value,
                                    .images = INT64_MAX,
                                    .seconds = value / 3,
                                    .best = value / 7,
                                    .epochs_since_best = 2};
    checkpoints.save(training.state(), progress);
    NewestCheckpoint newest = checkpoints.newest();
    REQUIRE(newest.checkpoint);
    CHECK(newest.checkpoint->progress == progress);
    CHECK(std::signbit(newest.checkpoint->progress.loss_sum) == std::signbit(value));
    CHECK(newest.checkpoint->notes == notes);
    CHECK(newest.checkpoint->path == checkpoints.files().front());
  }
  checkpoints.save(training.state(), {});
  CHECK(!checkpoints.load_newest(training.state()).checkpoint->progress.best);
}

TEST_CASE("an empty folder has nothing, and is made") {
  TempFolder folder;
  Checkpoints checkpoints(folder.path() + "/a/b", options_of());
  CHECK(std::filesystem::is_directory(folder.path() + "/a/b"));
  CheckpointedTraining training;
  auto before = training.bits();
  NewestCheckpoint newest = checkpoints.load_newest(training.state());
  CHECK(!newest.checkpoint);
  CHECK(newest.passed_over.empty());
  CHECK(training.bits() == before);
  CHECK(names_in(folder.path() + "/a/b").empty());
}

TEST_CASE("the newest stay, and nothing else is touched") {
  TempFolder folder;
  const Names others{"notes.txt", "step-1.safetensors", "step-000000001.safetensors",
                     "step-0000000x.safetensors", "step-00000001.safetensors.old"};
  for (const std::string& name : others) folder.write(name, {});
  folder.make_folder("step-00000009.safetensors");
  Checkpoints checkpoints(folder.path(), options_of(/*keep=*/2));
  CheckpointedTraining training;
  for (int64_t updates : {5, 7, 99'999'999, 100'000'000}) {
    training.step->set_updates(updates);
    checkpoints.save(training.state(), {});
  }
  CHECK(checkpoints.files() == Names{folder.path() + "/step-100000000.safetensors",
                                     folder.path() + "/step-99999999.safetensors"});
  CHECK(names_in(folder.path()).size() == others.size() + 1 + 2);
  // Of a training that went back the one just written stays, though it is the oldest.
  training.step->set_updates(6);
  std::string path = checkpoints.save(training.state(), {});
  CHECK(checkpoints.files() == Names{folder.path() + "/step-100000000.safetensors", path});
  // And again, in place of itself.
  checkpoints.save(training.state(), {.epoch = 1});
  CHECK(checkpoints.files().size() == 2);
  Checkpoints one(folder.path(), options_of(/*keep=*/1));
  one.save(training.state(), {.epoch = 2});
  CHECK(one.files() == Names{path});
  CHECK(one.newest().checkpoint->progress.epoch == 2);
}

<<<<<<< HEAD
=======
TEST_CASE("damaged files stay, and no whole one goes for them") {
  TempFolder folder;
  Training training;
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

  const Checkpoints checkpoints(folder.path(), options_of(/*keep=*/2));
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
  const Checkpoints checkpoints(two.folder.path(), options_of(/*keep=*/1));
  Training training;
  REQUIRE(!checkpoints.load_newest(training.state()).checkpoint);
  training.train(1);
  const std::string first = checkpoints.save(training.state(), {});  // in the place of one of them
  CHECK(checkpoints.files() == Names{two.paths[1], first});
  CHECK(checkpoints.newest().checkpoint->path == first);
}

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
  Training other;
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
  Training other;
  CHECK(two.checkpoints.load_newest(other.state()).passed_over.empty());  // no regular file
}

TEST_CASE("where none is whole nothing is found, and every reason told") {
  TwoCheckpoints two;
  for (const std::string& path : two.paths) overwrite(path, "nothing");
  Training other;
  auto before = other.bits();
  NewestCheckpoint newest = two.checkpoints.load_newest(other.state());
  CHECK(!newest.checkpoint);
  CHECK(newest.passed_over.size() == 2);
  CHECK(contains(newest.passed_over[1], two.paths[0]));
  CHECK(other.bits() == before);
}

TEST_CASE("a later version of the format is refused, not passed over") {
  TwoCheckpoints two;
  io::write_safetensors(two.paths[1], {},
                        {{"checkpoint.version", "3"}, {"who.knows", "what this is"}});
  check_refused(two.checkpoints, two.training, {"version 3", "later than 2"});
  CHECK_THROWS_AS(two.checkpoints.newest(), FileError);
}

TEST_CASE("another identity is refused, with the first setting that differs") {
  TwoCheckpoints two;
  auto refused = [&](const io::Metadata& identity, const std::string& part) {
    Checkpoints other(two.folder.path(), {.identity = identity});
    check_refused(other, two.training, {part});
    CHECK_THROWS_AS(other.newest(), FileError);
  };
  refused({{"batch", "32"}, {"model", "large"}}, R"(its batch is "64", but "32" here)");
  refused({{"batch", "64"}, {"model", "large"}}, R"(its model is "small", but "large" here)");
  refused({{"batch", "64"}}, R"(its model is "small", but not set here)");
  refused({{"batch", "64"}, {"ema", "0.9"}, {"model", "small"}},
          R"(its ema is not set, but "0.9" here)");
  refused({{"batch", "\x1b[2J"}, {"model", "small"}}, R"(but "\x1b[2J" here)");
}

TEST_CASE("a checkpoint of another training is refused before anything changes") {
  TempFolder folder;
  Checkpoints checkpoints(folder.path(), options_of());
  auto save = [&](auto training) {
    training.train(1);
    checkpoints.save(training.state(), {});
  };
  Training small;
  SUBCASE("names") {
    save(Training<OtherNames>());
    check_refused(checkpoints, small, {"of another training", "it has no 'ema.bn1.bias'"});
  }
  SUBCASE("fewer") {
    save(Training<OtherNames>({.ema = false}));
    Training<OneLayer<4>> one({.ema = false});
    check_refused(checkpoints, one, {"this one has no 'model.head.bias'"});
  }
  SUBCASE("shapes") {
    save(Training<OneLayer<5>>({.ema = false}));
    Training<OneLayer<4>> one({.ema = false});
    check_refused(checkpoints, one, {"'model.fc.bias' is float32 of [5], but float32 of [4] here"});
  }
  SUBCASE("dtypes") {
    save(Training<OneLayer<4>>({.ema = false}));
    Training<OneLayer<4>> one({.ema = false});
    one.model.to(Dtype::float64);
    check_refused(checkpoints, one, {"'model.fc.bias' is float32 of [4], but float64 of [4] here"});
  }
  SUBCASE("optimizers") {
    save(Training({.optimizer = "adamw"}));
    check_refused(checkpoints, small, {"it has no 'optimizer.momentum.bn1.bias'"});
  }
  SUBCASE("averages there") {
    save(Training());
    Training without({.ema = false});
    check_refused(checkpoints, without, {"it has averages"});
  }
  SUBCASE("averages here") {
    save(Training({.ema = false}));
    check_refused(checkpoints, small, {"it has no averages"});
  }
}

TEST_CASE("inside an EmaScope nothing is saved or loaded") {
  TwoCheckpoints two;
  optim::EmaScope averaged(*two.training.ema);
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { two.checkpoints.save(two.training.state(), {}); },
           [&] { two.checkpoints.load_newest(two.training.state()); }})
    CHECK(contains(error_text<ValueError>(call), "end the EmaScope first"));
  CHECK(names_in(two.folder.path()).size() == 2);
}

TEST_CASE("numbers that no checkpoint holds are refused by their name") {
  TempFolder folder;
  Checkpoints checkpoints(folder.path(), options_of());
  Training training;
  auto refused = [&](const TrainingProgress& progress) {
    return error_text<ValueError>([&] { checkpoints.save(training.state(), progress); });
  };
  CHECK(refused({.batch = -1}) == "checkpoints: batch cannot be -1");
  CHECK(refused({.loss_sum = NAN}) == "checkpoints: loss_sum cannot be nan");
  CHECK(refused({.best = -INFINITY}) == "checkpoints: best cannot be -inf");
  CHECK(names_in(folder.path()).empty());
}

TEST_CASE("options out of range are refused before there is a folder") {
  TempFolder folder;
  std::string path = folder.path() + "/new";
  auto refused = [&](const CheckpointOptions& options) {
    std::string text = error_text<ValueError>([&] { Checkpoints(path, options); });
    CHECK(!fs::exists(path));
    return text;
  };
  CHECK(refused({.keep = 0}) == "checkpoints: expected to keep at least 1 file, got 0");
  CHECK(contains(refused({.identity = {{"data", "\xff"}}}), "not UTF-8"));
  CHECK(contains(refused({.identity = {{"a\nb", "c"}}}), "cannot be a name"));
  Checkpoints checkpoints(path, options_of());
  CHECK_THROWS_AS(checkpoints.set_notes({{"budget", "\xff"}}), ValueError);
}

TEST_CASE("a folder that cannot be used is refused at once") {
  TempFolder folder;
  folder.write("file", {});
  auto refused = [](const std::string& path) {
    std::string text = error_text<FileError>([&] { Checkpoints(path, options_of()); });
    CAPTURE(text);
    CHECK(text.starts_with("checkpoints: cannot"));
    CHECK(contains(text, "'" + path));
  };
  refused(folder.path() + "/file");
  refused(folder.path() + "/file/below");
  refused("/proc");  // where root cannot write either
  refused("");
}

TEST_CASE("a disk that fills up leaves the older checkpoints") {
  TwoCheckpoints two;
  two.training.train(1);
  auto before = two.training.bits();
  std::string text = error_text<FileError>([&] {
    testing::FullDisk full(1000);
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
  Checkpoints again(two.folder.path(), options_of());
  Names expected = others;
  for (const char* name : {"step-00000001.safetensors", "step-00000002.safetensors"})
    expected.emplace_back(name);
  std::ranges::sort(expected);
  CHECK(names_in(two.folder.path()) == expected);
}

>>>>>>> 2c096f0f9c1421115ee926912cc2c2926fa7882b
TEST_CASE("the account in force is not charged") {
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  TempFolder folder;
  Checkpoints checkpoints(folder.path(), options_of());
  CheckpointedTraining training;
  account->reset_peak();
  const memory::AccountStats before = account->stats();
  checkpoints.save(training.state(), {});
  REQUIRE(checkpoints.load_newest(training.state()).checkpoint);
  CHECK(account->stats().live == before.live);
  CHECK(account->stats().peak_live == before.live);
}
