#include "brim/memory/fetch_name.h"

#include <doctest/doctest.h>

#include <string>

#include "brim/memory/trace.h"

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

TEST_CASE("an origin says what is fetched, and not that this is the backward of something") {
  Origin origin{fetch_name("relu"), "layer1", "net/resnet.cc", 7, Phase::backward};
  CHECK(to_string(origin) == "fetch of 'relu' in layer1 (resnet.cc:7)");
  origin.op = fetch_name("");
  CHECK(to_string(origin) == "fetch in layer1 (resnet.cc:7)");
  origin.op = "relu";
  CHECK(to_string(origin) == "backward of 'relu' in layer1 (resnet.cc:7)");
}
