// Trains an image classifier: on the embedded shapes, on a folder of your own pictures, or on
// random pixels for timing. `train --help` shows the flags.
#include "brim/apps/support/app.h"
#include "brim/apps/support/program.h"
#include "brim/apps/support/train_run.h"

int main(int argc, char** argv) {
  brim::apps::App app("Trains an image classifier within a known amount of memory.", "train");
  brim::apps::TrainFlags flags;
  brim::apps::add_flags(app, flags);
  return brim::apps::run_program(app, argc, argv, [&] { brim::apps::run_training(flags); });
}
