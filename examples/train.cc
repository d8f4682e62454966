// Trains an image classifier: on the embedded shapes, on a folder of your own pictures, or on
// random pixels for timing. `train --help` shows the flags.
#include "brim/examples/support/app.h"
#include "brim/examples/support/program.h"
#include "brim/examples/support/train_run.h"

int main(int argc, char** argv) {
  brim::examples::App app("Trains an image classifier within a known amount of memory.", "train");
  brim::examples::TrainFlags flags;
  brim::examples::add_flags(app, flags);
  return brim::examples::run_program(app, argc, argv, [&] { brim::examples::run_training(flags); });
}
