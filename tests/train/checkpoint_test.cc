// Proves that a training goes on from a checkpoint with the same bits, that the newest whole one is
// found whatever happened to others, and that one which is refused, for whatever reason, changes
// nothing.
#include "brim/train/checkpoint.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <limits>

#include "brim/io/atomic_file.h"
#include "brim/nn/weights.h"
#include "brim/optim/adamw.h"
#include "brim/optim/sgd.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/full_disk.h"
#include "brim/tests/support/temp_folder.h"
#include "brim/tests/train/small_net.h"

using namespace brim;
using testing::contains;
using testing::error_text;
using testing::TempFolder;
using testing::text_of;

namespace {

namespace fs = std::filesystem;

struct TrainingCase {
  std::string optimizer = "sgd";  // or "plain", sgd without momentum; "adamw"
  bool ema = true;
  uint64_t seed = 3;  // of the first values
};

std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name, nn::Module& model) {
  if (name == "adamw") return std::make_unique<optim::AdamW>(model.named_parameters());
  return std::make_unique<optim::Sgd>(model.named_parameters(),
                                      optim::SgdOptions{.momentum = name == "plain" ? 0 : 0.9});
}

/// A training of a model, and all that it changes.
template <class Model = testing::SmallNet>
class Training {
 public:
  explicit Training(const TrainingCase& c = {}) {
    nn::initialize(model, c.seed);
    optimizer = make_optimizer(c.optimizer, model);
    if (c.ema) ema = std::make_unique<optim::Ema>(model, optim::EmaOptions{.decay = 0.9});
    step = std::make_unique<TrainStep>(model, *optimizer,
                                       TrainStepOptions{.seed = 5, .ema = ema.get()});
  }

  /// The data of an update follow from its number.
  void train(int updates) {
    for (int i = 0; i < updates; ++i) {
      auto seed = static_cast<uint64_t>(step->updates());
      testing::Problem problem = testing::random_problem(4, 6, 4, seed);
      step->run(0.05, [&] { return cross_entropy(model(problem.images), problem.labels); });
    }
  }

  TrainingState state() { return {model, *optimizer, *step, ema.get()}; }

  /// The bits of all values, and the counts.
  std::vector<uint32_t> bits() const {
    std::vector<uint32_t> all;
    auto add = [&](const std::vector<nn::NamedTensor>& tensors) {
      for (float value : testing::values_of(tensors)) all.push_back(std::bit_cast<uint32_t>(value));
    };
    add(model.named_parameters());
    add(model.named_buffers());
    add(optimizer->named_state());
    if (ema) add(ema->named_state());
    for (int64_t count : {step->updates(), optimizer->steps(), ema ? ema->updates() : 0})
      all.push_back(static_cast<uint32_t>(count));
    return all;
  }

  Model model;
  std::unique_ptr<optim::Optimizer> optimizer;
  std::unique_ptr<optim::Ema> ema;
  std::unique_ptr<TrainStep> step;
};

struct OtherNames final : nn::Module {
  OtherNames() { register_modules({{"fc", fc}, {"head", head}}); }
  Tensor forward(Tensor x) override { return head(fc(global_avg_pool(std::move(x)))); }
  nn::Linear fc{3, 8}, head{8, 4};
};

template <int64_t kClasses>
struct OneLayer final : nn::Module {
  OneLayer() { register_modules({{"fc", fc}}); }
  Tensor forward(Tensor x) override { return fc(global_avg_pool(std::move(x))); }
  nn::Linear fc{3, kClasses};
};

CheckpointOptions options_of(int64_t keep = 3) {
  return {.keep = keep, .identity = {{"batch", "64"}, {"model", "small"}}};
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

using Names = std::vector<std::string>;

void overwrite(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// Checks that loading throws a `FileError` with all of `parts`, and leaves `training` as it was.
template <class T>
void check_refused(const Checkpoints& checkpoints, T& training, const Names& parts) {
  auto before = training.bits();
  std::string text = error_text<FileError>([&] { checkpoints.load_newest(training.state()); });
  CAPTURE(text);
  CHECK(text.starts_with("checkpoints: '" + checkpoints.files().front() + "'"));
  for (const std::string& part : parts) CHECK_MESSAGE(contains(text, part), part);
  CHECK(training.bits() == before);
}

/// A folder with checkpoints after updates 1 and 2 of a training, and the bits then.
struct TwoCheckpoints {
  TwoCheckpoints() {
    for (auto* bits : {&first, &second}) {
      training.train(1);
      paths.push_back(checkpoints.save(training.state(), {.batch = training.step->updates()}));
      *bits = training.bits();
    }
  }

  /// Checks that the second is passed over for reasons that begin with `start`, and the first
  /// taken.
  void check_passed_over(const std::string& start = "") const {
    Training other({.seed = 8});
    NewestCheckpoint newest = checkpoints.load_newest(other.state());
    REQUIRE(newest.passed_over.size() == 1);
    CAPTURE(newest.passed_over[0]);
    CHECK(contains(newest.passed_over[0], "'" + paths[1] + "'"));
    CHECK(newest.passed_over[0].starts_with(start));
    REQUIRE(newest.checkpoint);
    CHECK(newest.checkpoint->path == paths[0]);
    CHECK(newest.checkpoint->progress.batch == 1);
    CHECK(other.bits() == first);
  }

  TempFolder folder;
  Checkpoints checkpoints{folder.path(), options_of()};
  Training<> training;
  Names paths;
  std::vector<uint32_t> first, second;
};

}  // namespace

TEST_CASE("a training goes on with the same bits") {
  for (const char* optimizer : {"plain", "sgd", "adamw"})
    for (bool ema : {true, false}) {
      CAPTURE(optimizer);
      CAPTURE(ema);
      TempFolder folder;
      Checkpoints checkpoints(folder.path(), options_of());
      Training whole({.optimizer = optimizer, .ema = ema});
      whole.train(3);
      checkpoints.save(whole.state(), {});
      auto saved = whole.bits();
      whole.train(3);

      Training resumed({.optimizer = optimizer, .ema = ema, .seed = 8});
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
  Training training;
  const io::Metadata notes{{"budget", "{\"a\": [1]}"}, {"micro-batch", "8"}, {"empty", ""}};
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
  CHECK(fs::is_directory(folder.path() + "/a/b"));
  Training training;
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
  Training training;
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

TEST_CASE("the account in force is not charged") {
  auto account = memory::capped_host_account("direct");
  memory::AccountScope scope(account);
  TempFolder folder;
  Checkpoints checkpoints(folder.path(), options_of());
  Training training;
  account->reset_peak();
  const memory::AccountStats before = account->stats();
  checkpoints.save(training.state(), {});
  REQUIRE(checkpoints.load_newest(training.state()).checkpoint);
  CHECK(account->stats().live == before.live);
  CHECK(account->stats().peak_live == before.live);
}
