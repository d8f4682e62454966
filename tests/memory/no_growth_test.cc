#include "brim/memory/no_growth.h"

#include <doctest/doctest.h>

using namespace brim;
using namespace brim::memory;

TEST_CASE("a scope that leaves buffers behind fails, and names those that were made inside") {
  const std::string module = "head";
  auto account = capped_host_account("direct");
  AccountScope scope(account);
  Block before = account->allocate(640, Category::parameters), kept, gone;
  auto leak = [&] {
    NoGrowth no_growth(Device::cpu());
    gone = account->allocate(256, Category::activations);
    SiteScope site({.op = "relu", .module = &module, .file = "net.cc", .line = 12});
    kept = account->allocate(128, Category::activations);
    account->release(gone);
  };
  CHECK_THROWS_WITH_AS(leak(),
                       "no growth: 128 B (128 bytes) more are live than when the scope began; of "
                       "what was made inside, it still holds 128 B (128 bytes) in 1 buffer:\n"
                       "      128 B  activations    head: relu at net.cc:12",
                       GrowthError);
  NoGrowth again(account);  // from here on, it is no growth any more
  again.check();
  account->release(kept);
  account->release(before);
}

TEST_CASE("what replaces as many bytes is no growth") {
  auto account = capped_host_account("direct");
  Block held = account->allocate(128, Category::other);
  CHECK_NOTHROW([&] {
    NoGrowth no_growth(account);
    account->release(held);
    held = account->allocate(100, Category::other);
  }());
  account->release(held);
}

TEST_CASE("check throws at once, with the numbers, and the end of the scope not again") {
  auto account = capped_host_account("direct");
  Block held;
  CHECK_NOTHROW([&] {
    NoGrowth no_growth(account);
    held = account->allocate(128, Category::other);
    try {
      no_growth.check();
      FAIL("128 bytes more are held");
    } catch (const GrowthError& error) {
      CHECK(error.grown() == 128);
      REQUIRE(error.buffers().size() == 1);
      CHECK(error.buffers()[0].bytes == 128);
    }
  }());
  account->release(held);
}

TEST_CASE("a scope that an error leaves lets it pass; one inside a destructor still checks") {
  auto account = capped_host_account("direct");
  Block held;
  CHECK_THROWS_AS(([&] {
                    NoGrowth no_growth(account);
                    held = account->allocate(128, Category::other);
                    throw ValueError("test", "first");
                  }()),
                  ValueError);
  account->release(held);

  bool found = false;
  struct WhileUnwinding {
    std::shared_ptr<Account> account;
    bool& found;
    ~WhileUnwinding() {
      Block block;
      try {
        NoGrowth no_growth(account);
        block = account->allocate(64, Category::other);
      } catch (const GrowthError&) {
        found = true;
      }
      account->release(block);
    }
  };
  CHECK_THROWS_AS(([&] {
                    WhileUnwinding unwinding{account, found};
                    throw ValueError("test", "unwinds");
                  }()),
                  ValueError);
  CHECK(found);
}
