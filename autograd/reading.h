// What a backward function reads while it runs, and while what it lacks is made again: none of it
// may be dropped meanwhile. For backward, which opens the scope, and for policies that drop what is
// held.
#pragma once

namespace brim::autograd {

class Node;
class Value;

/// What `node` saved is read until the scope ends.
class ReadingScope {
 public:
  explicit ReadingScope(const Node& node);
  ~ReadingScope();
  ReadingScope(const ReadingScope&) = delete;
  ReadingScope& operator=(const ReadingScope&) = delete;

  /// In any scope of this thread?
  static bool reads(const Value& value);

 private:
  const Node& node_;
  ReadingScope* before_;
};

}  // namespace brim::autograd
