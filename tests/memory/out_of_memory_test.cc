// What the error of a full device says: exact texts, and the numbers beside them.
#include "brim/memory/out_of_memory.h"

#include <doctest/doctest.h>

#include "brim/memory/account.h"

using namespace brim;
using namespace brim::memory;

namespace {

constexpr int64_t kMiB = 1 << 20;

BufferShape shape_of(std::initializer_list<int64_t> sizes) {
  BufferShape shape{.dims = static_cast<int>(sizes.size()), .dtype = "float32"};
  std::copy(sizes.begin(), sizes.end(), shape.sizes);
  return shape;
}

/// The error of a request that the account refuses.
OutOfMemory refused(Account& account, int64_t bytes, Category category = Category::activations,
                    const BufferShape& shape = {}) {
  try {
    account.release(account.allocate(bytes, category, shape));
  } catch (const OutOfMemory& error) {
    return error;
  }
  FAIL("there was room");
  throw 0;
}

}  // namespace

TEST_CASE("the message names the request, the numbers, the place and the largest buffers") {
  const std::string conv = "layer1.0.conv1", weight = "conv1.weight";
  auto account = std::make_shared<Account>(Device::cpu(), std::make_unique<HostSource>(8 * kMiB),
                                           planner_named("direct"));
  Block parameter = account->allocate(3 * kMiB, Category::parameters, shape_of({768, 1024}));
  account->set_site(parameter, {.op = "parameter", .module = &weight});
  SectionScope section(account, {SectionKind::micro_step, 64});
  SiteScope site({.op = "conv2d",
                  .module = &conv,
                  .file = "nn/models/resnet.cc",
                  .line = 40,
                  .phase = Phase::forward});
  Block saved = account->allocate(kMiB, Category::activations, shape_of({256, 1024}));
  Block scratch = account->allocate(64, Category::scratch);
  OutOfMemory error = refused(*account, 6 * kMiB, Category::activations, shape_of({3, 512, 1024}));
  CHECK(error.what() ==
        std::string(
            "out of memory: asked cpu for 6 MiB (6291456 bytes) of activations, float32 "
            "[3,512,1024]; device total 8 MiB, live 4 MiB, cached 0 B, fragmented 0 B, free 4 MiB\n"
            "  live by category: parameters 3 MiB, activations 1 MiB, scratch 64 B\n"
            "  asked for by: layer1.0.conv1: conv2d at nn/models/resnet.cc:40, forward; in the "
            "micro-step of 64\n"
            "  largest live buffers:\n"
            "      3 MiB  parameters     float32 [768,1024]  conv1.weight: parameter\n"
            "      1 MiB  activations    float32 [256,1024]  layer1.0.conv1: conv2d at "
            "nn/models/resnet.cc:40, forward\n"
            "       64 B  scratch        layer1.0.conv1: conv2d at nn/models/resnet.cc:40, "
            "forward"));
  for (const Block& block : {parameter, saved, scratch}) account->release(block);

  const Shortage& s = error.shortage();  // complete, though the buffers are gone
  CHECK(s.requested == 6 * kMiB);
  CHECK(s.total == 8 * kMiB);
  CHECK(s.live == 4 * kMiB + 64);
  CHECK(s.free == 4 * kMiB - 64);
  CHECK(to_string(s.shape) == "float32 [3,512,1024]");
  CHECK(s.site.path() == conv);
  CHECK(s.section == Section{SectionKind::micro_step, 64});
  REQUIRE(s.largest.size() == 3);
  CHECK(s.largest[1].bytes == kMiB);
  CHECK(s.largest[1].category == Category::activations);
  CHECK(s.largest[1].site.op == std::string("conv2d"));
  CHECK(s.largest[1].site.line == 40);
  CHECK(to_string(s.largest[1].shape) == "float32 [256,1024]");
  CHECK(s.remedies.empty());
}

TEST_CASE("what is not known is left out") {
  auto account = std::make_shared<Account>(Device::cpu(), std::make_unique<HostSource>(kMiB),
                                           planner_named("direct"));
  CHECK(refused(*account, 2 * kMiB, Category::scratch).what() ==
        std::string("out of memory: asked cpu for 2 MiB (2097152 bytes) of scratch; device total 1 "
                    "MiB, live 0 B, cached 0 B, fragmented 0 B, free 1 MiB\n"
                    "  live by category: nothing"));
  account->set_cap(Source::kUnlimited);
  account->fail_nth(1);
  CHECK(refused(*account, 64, Category::gradients).what() ==
        std::string("out of memory: injected fault: asked cpu for 64 B (64 bytes) of gradients; "
                    "device total no set limit, live 0 B, cached 0 B, fragmented 0 B\n"
                    "  live by category: nothing"));
}

TEST_CASE("a library without memory of its own is told apart, and the op that called it is named") {
  auto account = capped_host_account("direct", kMiB);
  AccountScope scope(account);
  Block held = account->allocate(64, Category::parameters);
  SiteScope site({.op = "matmul", .file = "main.cc", .line = 7, .phase = Phase::backward});
  CHECK_THROWS_WITH_AS(raise_library_shortage(Device::cpu()),
                       "out of memory: a library got no memory of its own from cpu; device total 1 "
                       "MiB, live 64 B, cached 0 B, fragmented 0 B, free 1023.9 KiB\n"
                       "  live by category: parameters 64 B\n"
                       "  asked for by: matmul at main.cc:7, backward\n"
                       "  largest live buffers:\n"
                       "       64 B  parameters",
                       OutOfMemory);
  account->release(held);
}

TEST_CASE("ten buffers are named, the largest first, of equal ones the oldest") {
  auto account = capped_host_account("direct", kMiB);
  std::vector<Block> held;
  for (int64_t units : {1, 7, 3, 9, 9, 2, 12, 5, 4, 8, 6, 11, 10, 9})
    held.push_back(account->allocate(units * 64, Category::other));
  OutOfMemory error = refused(*account, 2 * kMiB);
  std::vector<int64_t> units;
  for (const BufferInfo& buffer : error.shortage().largest) units.push_back(buffer.bytes / 64);
  CHECK(units == std::vector<int64_t>{12, 11, 10, 9, 9, 9, 8, 7, 6, 5});
  CHECK(error.shortage().largest[3].id == 4);
  CHECK(error.shortage().largest[4].id == 5);
  CHECK(error.shortage().largest[5].id == 14);
  for (const Block& block : held) account->release(block);
}

TEST_CASE("the section is the innermost that runs, and none after the last") {
  auto account = capped_host_account("direct", kMiB);
  auto section = [&] { return refused(*account, 2 * kMiB).shortage().section; };
  {
    SectionScope step(account, {SectionKind::first_micro_step, 8});
    {
      SectionScope evaluation(account, {SectionKind::evaluation, 4});
      CHECK(section()->kind == SectionKind::evaluation);
    }
    CHECK(section()->kind == SectionKind::first_micro_step);
  }
  CHECK(!section());
}

TEST_CASE("remedies end the message, and the rest stays") {
  auto account = capped_host_account("direct", kMiB);
  OutOfMemory error = refused(*account, 2 * kMiB);
  OutOfMemory better =
      error.with_remedies({"batch 48 fits: predicted peak 1.2 GiB", "batch 64 ..."});
  CHECK(better.what() == std::string(error.what()) +
                             "\n  planned, and found to fit:\n"
                             "    batch 48 fits: predicted peak 1.2 GiB\n"
                             "    batch 64 ...");
  CHECK(better.shortage().remedies.size() == 2);
  CHECK(better.shortage().requested == 2 * kMiB);
}

TEST_CASE("an error that is held keeps no byte, and asks for none") {
  auto account = capped_host_account("caching", 8 * kMiB);
  Block held = account->allocate(kMiB, Category::other);
  int64_t requests = account->stats().requests;
  auto error = std::make_exception_ptr(refused(*account, 16 * kMiB));
  CHECK(account->stats().requests == requests + 1);  // the refused one
  account->release(held);
  account->empty_cache();
  CHECK(account->stats().reserved == 0);
}
