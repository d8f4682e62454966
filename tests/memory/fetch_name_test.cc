#include "brim/memory/fetch_name.h"

#include <doctest/doctest.h>

#include <string>

using namespace brim::memory;

TEST_CASE("the name of a fetch has the op's, and is one for ever") {
  for (const std::string op : {"relu", "", "fetch"}) {
    CAPTURE(op);
    CHECK(fetched_op(fetch_name(op)) == op);
    CHECK(fetch_name(op) == fetch_name(std::string(op)));  // the same address
  }
  CHECK(std::string(fetch_name("relu")) == "fetch relu");
  for (const char* other : {"", "relu", "fetching", "refetch relu"}) CHECK(!fetched_op(other));
}
