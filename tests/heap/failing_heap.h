// A heap of the program that is full on demand: linking this replaces operator new. For device
// memory there is `Account::fail_nth`.
#pragma once

#include <cstdint>

namespace brim::testing {

/// On this thread, until the scope ends: the `nth` operator new from now (1 is the next) throws
/// `std::bad_alloc`; one that `stays` full refuses all after it, too. Not to be nested.
class HeapFault {
 public:
  struct Options {
    bool stays = false;
  };
  HeapFault(int64_t nth, Options options);
  explicit HeapFault(int64_t nth) : HeapFault(nth, Options{}) {}
  ~HeapFault();
  HeapFault(const HeapFault&) = delete;
  HeapFault& operator=(const HeapFault&) = delete;

  /// Was anything refused?
  bool struck() const;
};

}  // namespace brim::testing
