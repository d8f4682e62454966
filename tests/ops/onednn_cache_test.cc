// Compiled primitives are kept up to a number, those used last, and who has found one holds it.
#include <doctest/doctest.h>

#include "brim/memory/out_of_memory.h"
#include "brim/ops/onednn_primitive.h"

using namespace brim;
using namespace brim::onednn;

namespace {

struct Making {
  explicit Making(size_t most) : cache(most) {}
  PrimitivePtr find(int key) {
    return cache.find(key, [&] {
      made.push_back(key);
      return key < 0 ? nullptr : std::make_unique<Primitive>();
    });
  }

  Cache<int> cache;
  std::vector<int> made;
};

}  // namespace

TEST_CASE("a key is made once while it is kept, and a refusal is kept too") {
  Making making(3);
  const PrimitivePtr one = making.find(1);
  CHECK(one != nullptr);
  CHECK(making.find(-2) == nullptr);
  CHECK(making.find(1) == one);
  CHECK(making.find(-2) == nullptr);
  CHECK(making.made == std::vector{1, -2});
}

TEST_CASE("the one that was not used for longest makes room, and lives on where it is held") {
  Making making(3);
  for (int key : {1, 2, 3}) making.find(key);
  const PrimitivePtr held = making.find(2);
  making.find(1);
  making.find(4);  // in place of 3
  making.find(5);  // of 2
  CHECK(held.use_count() == 1);
  for (int key : {1, 4, 5}) making.find(key);
  CHECK(making.made == std::vector{1, 2, 3, 4, 5});
  making.find(3);
  CHECK(making.made.back() == 3);
}

TEST_CASE("what cannot be made for now is not kept, and nothing makes room for it") {
  Making making(1);
  const PrimitivePtr one = making.find(1);
  CHECK_THROWS_AS(
      making.cache.find(2, []() -> std::unique_ptr<Primitive> { throw std::bad_alloc(); }),
      brim::memory::OutOfMemory);
  CHECK(making.find(1) == one);
  CHECK(making.made.size() == 1);
}
