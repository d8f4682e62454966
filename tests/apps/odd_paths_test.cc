// Names that are not UTF-8 are read and written by their bytes, and printed and kept in files with
// \xNN for each byte that is none.
#include "brim/brim.h"
#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/errors.h"
#include "brim/tests/support/pictures.h"

using namespace brim;
using namespace brim::testing;

namespace {

const std::string kOdd = "caf\xE9", kShown = "caf\\xE9";

}  // namespace

TEST_CASE("train and infer: classes, data, weights and logs may be called anything") {
  const TempFolder folder;
  const std::string data = folder.path() + "/" + kOdd;
  for (const char* split : {"train", "val"})
    for (const std::string& name : {std::string("a"), kOdd})
      for (int i = 0; i < 4; ++i)
        folder.write(kOdd + "/" + split + "/" + name + "/" + std::to_string(i) + ".jpg",
                     jpeg_picture(i));
  const std::string run = "--data " + data + " --model resnet20 --size 32 --batch 4 --epochs 1 " +
                          "--threads 1 --json " + data + "/log --checkpoint " + data +
                          "/kept --save " + data + "/w --save-plan " + data + "/plan ";
  const Finished first = train(run);
  CAPTURE(first.err);
  REQUIRE(first.code == 0);
  CHECK(contains(first.out, folder.path() + "/" + kShown));
  CHECK(!events_of(bytes_of(data + "/log")).empty());
  CHECK(nn::card_of(io::SafetensorsFile(data + "/w")).classes ==
        std::vector<std::string>{"a", kShown});
  // The same data by the checkpoint's identity, and the same plan.
  const Finished again = train(run + "--resume");
  CAPTURE(again.err);
  CHECK(again.code == 0);
  CHECK(train(run + "--plan " + data + "/plan --checkpoint " + data + "/other").code == 0);

  const Finished guess = run_command("apps/infer --json - --weights " + data + "/w --image " +
                                     data + "/val/" + kOdd + "/1.jpg");
  CAPTURE(guess.err);
  REQUIRE(guess.code == 0);
  CHECK(json::parse(guess.out)["image"] ==
        folder.path() + "/" + kShown + "/val/" + kShown + "/1.jpg");
}

TEST_CASE("errors name such a path in one line of UTF-8, without control characters") {
  for (const std::string& program :
       {std::string("infer --image a.jpg --weights"), std::string("pack"),
        std::string("train --data"), std::string("plan --init"), std::string("prune --weights")}) {
    CAPTURE(program);
    const Finished run = run_command("apps/" + program + " 'no\x1B[31m" + kOdd + "'");
    CAPTURE(run.err);
    CHECK(run.code == 1);
    CHECK(contains(run.err, "no\\x1B[31m" + kShown));
    CHECK(std::count(run.err.begin(), run.err.end(), '\n') == 1);
  }
}
