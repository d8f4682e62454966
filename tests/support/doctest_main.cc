// The main() of every test. `bazel test --test_filter='*words*'` picks test cases by name.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  if (const char* filter = std::getenv("TESTBRIDGE_TEST_ONLY")) {
    context.setOption("test-case", filter);
  }
  return context.run();
}
