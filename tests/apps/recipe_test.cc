// What `train` does where no flag says how: the model's own optimizer, rate and size of image, by
// the rule for another batch, and less for weights that are there; too small images are named.
#include "brim/nn/models/training_recipe.h"
#include "brim/tests/apps/train_program.h"
#include "brim/tests/support/temp_folder.h"

using namespace brim;
using namespace brim::testing;

namespace {

std::string said(const std::string& arguments) {
  CAPTURE(arguments);
  const Finished run = train("--threads 1 --workers 1 --steps 1 " + arguments);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  return run.out;
}

void check_says(const std::string& out, const std::string& text) {
  CAPTURE(out);
  CAPTURE(text);
  CHECK(out.find(text) != std::string::npos);
}

const std::string kOneBatch = "--data synthetic --classes 10 ";

}  // namespace

TEST_CASE("train: without flags the optimizer, the rate and the decay are the model's") {
  check_says(said(kOneBatch + "--size 32 --batch 32"),
             "sgd: rate 0.05, Nesterov momentum 0.9, weight decay 0.0005\n");
  const std::string mobile = kOneBatch + "--model mobilenet_v2 --size 64 --batch ";
  check_says(said(mobile + "32"), "adamw: rate 0.004, weight decay 0.01\n");
  check_says(said(mobile + "8"),
             "adamw: rate 0.002: 0.004 at batch 32, by the square root (sqrt), weight decay");
  check_says(said(mobile + "8 --lr 0.01 --weight-decay 0.1"),
             "adamw: rate 0.01, weight decay 0.1\n");
  check_says(said(mobile + "8 --optimizer sgd --lr 0.01"),
             "sgd: rate 0.01, Nesterov momentum 0.9, weight decay 0.0005\n");
}

TEST_CASE("train: photographs have the model's size, drawn shapes its smaller one") {
  const std::string shapes = "--data shapes --batch 4 ";
  check_says(said(shapes), ", 32x32, ");
  check_says(said(shapes + "--model mobilenet_v3_small"), ", 64x64, ");
  check_says(said(shapes + "--model mobilenet_v3_small --size 48"), ", 48x48, ");
  check_says(said(kOneBatch + "--batch 2 --model mobilenet_v3_small"), ", 224x224, ");
}

TEST_CASE("train: images that leave one pixel of a model's last maps are named, with what to do") {
  const std::string mobile = kOneBatch + "--batch 4 --model mobilenet_v3_small --size ";
  check_says(said(mobile + "32"),
             "warning: at 32x32 the last maps of mobilenet_v3_small are one pixel, so it learns "
             "little; try --size 64, or --model resnet20, which is made for 32x32\n");
  check_says(said(mobile + "24"), "so it learns little; try --size 64\n");
  CHECK(said(mobile + "33").find("warning") == std::string::npos);
  CHECK(said(kOneBatch + "--batch 4 --size 32").find("warning") == std::string::npos);
}

TEST_CASE("train: weights from a file are trained on at a quarter of the rate for new ones") {
  TempFolder folder;
  const std::string file = folder.path() + "/weights";
  said(kOneBatch + "--size 32 --batch 32 --save " + file);
  check_says(said(kOneBatch + "--size 32 --batch 32 --init " + file), "sgd: rate 0.0125, ");
  check_says(said(kOneBatch + "--size 32 --batch 32 --lr 0.05 --init " + file), "sgd: rate 0.05, ");
}
