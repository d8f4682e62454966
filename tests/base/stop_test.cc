// Proves that a wish to stop holds in the thread and the scope that it was given for.
#include "brim/base/stop.h"

#include <doctest/doctest.h>

#include <thread>

using namespace brim;

namespace {

bool stops() {
  try {
    stop_if_asked();
  } catch (const Stop&) {
    return true;
  }
  return false;
}

}  // namespace

TEST_CASE("a stop is seen where it was asked for, from then on") {
  bool asked = false;
  const StopAsked is_asked = [&] { return asked; };
  CHECK(!stops());
  {
    const StopScope may_stop(&is_asked);
    CHECK(stop_asked() == &is_asked);
    CHECK(!stops());
    asked = true;
    CHECK(stops());
    CHECK(stops());
  }
  CHECK(!stops());
  CHECK(stop_asked() == nullptr);
}

TEST_CASE("a scope of none finishes what is inside of it") {
  const StopAsked always = [] { return true; };
  const StopScope may_stop(&always);
  {
    const StopScope whole(nullptr);
    CHECK(!stops());
  }
  CHECK(stops());
}

TEST_CASE("other threads are not stopped, unless they take the wish over") {
  const StopAsked always = [] { return true; };
  const StopScope may_stop(&always);
  bool by_itself = true, taken_over = false;
  std::thread([&] { by_itself = stops(); }).join();
  std::thread([&, asked = stop_asked()] {
    const StopScope same(asked);
    taken_over = stops();
  }).join();
  CHECK(!by_itself);
  CHECK(taken_over);
}
