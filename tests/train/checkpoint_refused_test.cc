// Proves that a checkpoint, a folder or an option that is refused, for whatever reason, changes
// nothing.
#include <doctest/doctest.h>

#include <cmath>

#include "brim/shrink/channel_cut.h"
#include "brim/tests/train/checkpointed_training.h"

using namespace brim;
using namespace brim::testing;

namespace {

namespace fs = std::filesystem;

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

}  // namespace

TEST_CASE("a later version of the format is refused, not passed over") {
  TwoCheckpoints two;
  io::write_safetensors(two.paths[1], {},
                        {{"checkpoint.version", "5"}, {"who.knows", "what this is"}});
  check_refused(two.checkpoints, two.training, {"version 5", "later than 4"});
  CHECK_THROWS_AS(two.checkpoints.newest(), FileError);
}

TEST_CASE("another identity is refused, with the first setting that differs") {
  TwoCheckpoints two;
  auto refused = [&](const io::Metadata& identity, const std::string& part) {
    Checkpoints other(two.folder.path(), {.identity = identity, .lock = two.checkpoints.lock()});
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

TEST_CASE(
    "settings that only one side has do not differ, where it is said that they may be unknown") {
  TwoCheckpoints two;
  auto found = [&](const io::Metadata& identity, const std::set<std::string>& where_known) {
    return Checkpoints(
               two.folder.path(),
               {.identity = identity, .where_known = where_known, .lock = two.checkpoints.lock()})
        .newest();
  };
  const io::Metadata newer{{"batch", "64"}, {"classes", "cat, dog"}, {"model", "small"}};
  CHECK_THROWS_AS(found(newer, {}), FileError);
  CHECK(found(newer, {"classes"}).checkpoint.has_value());
  CHECK(found({{"batch", "64"}}, {"model"}).checkpoint.has_value());
  CHECK_THROWS_AS(found({{"batch", "32"}}, {"batch", "model"}), FileError);
}

TEST_CASE("of long settings what differs is shown") {
  TempFolder folder;
  const std::string same(5000, 'x');
  CheckpointedTraining training;
  training.train(1);
  Checkpoints(folder.path(), {.identity = {{"classes", same + "cat" + same}}})
      .save(training.state(), {});
  Checkpoints other(folder.path(), {.identity = {{"classes", same + "dog" + same}}});
  const std::string text = error_text<FileError>([&] { other.newest(); });
  CHECK(contains(text, "its classes is ...\"xxx"));
  CHECK(contains(text, "xxcatxx"));
  CHECK(contains(text, "xxdogxx"));
  CHECK(text.size() < 800);
}

TEST_CASE("a checkpoint of another training is refused before anything changes") {
  TempFolder folder;
  Checkpoints checkpoints(folder.path(), options_of());
  auto save = [&](auto training) {
    training.train(1);
    checkpoints.save(training.state(), {});
  };
  CheckpointedTraining small;
  SUBCASE("names") {
    save(CheckpointedTraining<OtherNames>());
    check_refused(checkpoints, small, {"of another training", "it has no 'ema.bn1.bias'"});
  }
  SUBCASE("fewer") {
    save(CheckpointedTraining<OtherNames>({.ema = false}));
    CheckpointedTraining<OneLayer<4>> one({.ema = false});
    check_refused(checkpoints, one, {"this one has no 'model.head.bias'"});
  }
  SUBCASE("shapes") {
    save(CheckpointedTraining<OneLayer<5>>({.ema = false}));
    CheckpointedTraining<OneLayer<4>> one({.ema = false});
    check_refused(checkpoints, one, {"'model.fc.bias' is float32 of [5], but float32 of [4] here"});
  }
  SUBCASE("dtypes") {
    save(CheckpointedTraining<OneLayer<4>>({.ema = false}));
    CheckpointedTraining<OneLayer<4>> one({.ema = false});
    one.model.to(Dtype::float64);
    check_refused(checkpoints, one, {"'model.fc.bias' is float32 of [4], but float64 of [4] here"});
  }
  SUBCASE("optimizers") {
    save(CheckpointedTraining({.optimizer = "adamw"}));
    check_refused(checkpoints, small, {"it has no 'optimizer.momentum.bn1.bias'"});
  }
  SUBCASE("averages there") {
    save(CheckpointedTraining());
    CheckpointedTraining without({.ema = false});
    check_refused(checkpoints, without, {"it has averages"});
  }
  SUBCASE("averages here") {
    save(CheckpointedTraining({.ema = false}));
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
  CheckpointedTraining training;
  auto refused = [&](const TrainingProgress& progress) {
    return error_text<ValueError>([&] { checkpoints.save(training.state(), progress); });
  };
  CHECK(refused({.batch = -1}) == "checkpoints: batch cannot be -1");
  CHECK(refused({.loss_sum = NAN}) == "checkpoints: loss_sum cannot be nan");
  CHECK(refused({.best = -INFINITY}) == "checkpoints: best cannot be -inf");
  CHECK(names_in(folder.path()).empty());
}

TEST_CASE("an identity that is not UTF-8 is the same one after it was written") {
  TempFolder folder;
  CheckpointOptions options{.identity = {{"data", "caf\xE9"}}};
  CheckpointedTraining training;
  Checkpoints(folder.path(), options).save(training.state(), {});
  CHECK(Checkpoints(folder.path(), options).newest().checkpoint.has_value());
  options.identity["data"] = "caf\xE8";
  CHECK_THROWS_AS(Checkpoints(folder.path(), options).newest(), FileError);
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
  CHECK(contains(refused({.identity = {{"\xff", "data"}}}), "not UTF-8"));
  CHECK(contains(refused({.identity = {{"a\nb", "c"}}}), "cannot be a name"));
  Checkpoints checkpoints(path, options_of());
  CHECK_THROWS_AS(checkpoints.set_notes({{"\xff", "budget"}}), ValueError);
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

TEST_CASE("momentum or averages of another size than their parameter's are refused") {
  for (const std::string of : {"momentum", "ema"}) {
    TempFolder folder;
    Checkpoints checkpoints(folder.path(), options_of());
    CheckpointedTraining forged;
    forged.train(2);
    for (const auto& named : {forged.optimizer->named_state(), forged.ema->named_state()})
      for (const nn::NamedTensor& tensor : named)
        if (tensor.name.starts_with(of) && tensor.tensor.dim() == 4)
          shrink::exchange(tensor.tensor, zeros({1, 1, 1, 1}));
    TrainingState state = forged.state();
    state.may_shrink = true;
    checkpoints.save(state, {});
    CheckpointedTraining fresh;
    const auto before = fresh.bits();
    TrainingState other = fresh.state();
    other.may_shrink = true;
    const std::string text = error_text<FileError>([&] { checkpoints.load_newest(other); });
    CAPTURE(text);
    CHECK(contains(text, "is [1,1,1,1], but 'model."));
    CHECK(fresh.bits() == before);
  }
}
