// Calls for which a library has nothing to compute them with, so that it is not asked again: ops
// ask at every launch. For what finds a plan, and throws `UnsupportedError` where there is none.
#pragma once

#include <mutex>
#include <set>

#include "brim/base/cuda/error.h"

namespace brim::cuda {

template <class Key>
class Without {
 public:
  /// Whether `find()` finds something for `key`. Thread safe. Throws what `find` does but for
  /// `UnsupportedError`: no failure says that there is nothing.
  template <class Find>
  bool finds(const Key& key, const Find& find) {
    if (std::lock_guard lock(mutex_); without_.contains(key)) return false;
    try {
      find();
      return true;
    } catch (const UnsupportedError&) {
      std::lock_guard lock(mutex_);
      without_.insert(key);
      return false;
    }
  }

 private:
  std::mutex mutex_;
  std::set<Key> without_;
};

}  // namespace brim::cuda
