// bazel/ptx_table.awk finds the divisions in inner loops of a PTX file written by hand.
#include <doctest/doctest.h>

#include "brim/tests/support/subprocess.h"

using namespace brim::testing;

TEST_CASE("ptx table: loads, stores and divisions in inner loops, however blocks are laid") {
  const Finished table = run_command("awk -f bazel/ptx_table.awk tests/cuda/loops.ptx");
  CHECK(table.code == 0);
  CHECK(table.out == "ptx 16 2 1 1 _Z6nested\nptx 16 2 1 0 _Z6beside\nptx 0 0 0 1 _Z8by_table\n");
}
