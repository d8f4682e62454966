#include "brim/base/parallel.h"

#include <doctest/doctest.h>

#include <mutex>
#include <vector>

#include "brim/base/error.h"
#include "brim/base/thread_limit.h"

using namespace brim;

TEST_CASE("every index is visited exactly once, whatever the threads and the grain") {
  int before = num_threads();
  for (int threads : {1, 2, 3, 7}) {
    set_num_threads(threads);
    for (int64_t size : {0, 1, 2, 5, 100, 1001}) {
      for (int64_t grain : {1, 10, 1000}) {
        std::vector<int> visits(static_cast<size_t>(size));
        parallel_for(size, grain, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
        });
        for (int count : visits) REQUIRE(count == 1);
      }
    }
  }
  set_num_threads(before);
}

TEST_CASE("pieces are cut by their number alone") {
  int before = num_threads();
  auto cuts = [](int threads) {
    set_num_threads(threads);
    std::vector<std::pair<int64_t, int64_t>> result(7);
    parallel_pieces(100, 7, [&](int64_t piece, int64_t begin, int64_t end) {
      result[static_cast<size_t>(piece)] = {begin, end};
    });
    return result;
  };
  CHECK(cuts(1) == cuts(2));
  CHECK(cuts(1) == cuts(5));
  set_num_threads(before);
}

TEST_CASE(
    "bodies take subnormal numbers for 0, on every thread; their caller does not afterwards") {
  const int before = num_threads();
  volatile const double tiny = 1e-310;
  for (int threads : {1, 2, 5}) {
    set_num_threads(threads);
    std::vector<double> products(1000);
    parallel_for(1000, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) products[static_cast<size_t>(i)] = tiny * 1e10;
    });
    parallel_pieces(1000, 10, [&](int64_t, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) products[static_cast<size_t>(i)] += tiny * 1e10;
    });
    for (double product : products) REQUIRE(product == 0);
    CHECK(!FlushDenormals::is_on());
    CHECK(tiny * 1e10 > 0);
  }
  set_num_threads(before);
}

TEST_CASE("threads of the pool go on so, for loops that are not brim's") {
  const int before = num_threads();
  set_num_threads(3);
  parallel_for(3, 1, [](int64_t, int64_t) {});
  int on = 0;
#pragma omp parallel num_threads(3) reduction(+ : on)
  on += omp_get_thread_num() > 0 && FlushDenormals::is_on();
  CHECK(on == 2);
  set_num_threads(before);
}

TEST_CASE("fewer than one thread and more than the most are refused, and nothing changes") {
  const int before = num_threads();
  CHECK(most_threads() >= 256);
  for (int threads : {0, -1, most_threads() + 1, 30000, 100000})
    CHECK_THROWS_WITH_AS(
        set_num_threads(threads),
        fmt::format("threads: expected from 1 to {} threads, got {}", most_threads(), threads)
            .c_str(),
        ValueError);
  CHECK(num_threads() == before);
}

TEST_CASE("where the environment asks for more threads than the most, the cores are taken") {
  const int before = num_threads();
  omp_set_num_threads(100000);  // as OMP_NUM_THREADS does
  CHECK(num_threads() == omp_get_num_procs());
  int visits = 0;
  std::mutex mutex;
  parallel_for(1'000'000, 1, [&](int64_t begin, int64_t end) {
    std::lock_guard lock(mutex);
    visits += static_cast<int>(end - begin);
  });
  CHECK(visits == 1'000'000);
  set_num_threads(before);
}

TEST_CASE("a thread can be kept out of parallel loops") {
  auto loop = [] { parallel_for(10, 1, [](int64_t, int64_t) {}); };
  {
    NoParallelScope scope;
    CHECK_THROWS_AS(loop(), InternalError);
    CHECK_THROWS_AS(parallel_pieces(10, 2, [](int64_t, int64_t, int64_t) {}), InternalError);
  }
  loop();
}
