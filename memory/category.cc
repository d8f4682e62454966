#include "brim/memory/category.h"

namespace brim::memory {
namespace {
thread_local Category current = Category::activations;
}  // namespace

Category current_category() { return current; }

CategoryScope::CategoryScope(Category category) : before_(current) { current = category; }
CategoryScope::~CategoryScope() { current = before_; }

}  // namespace brim::memory
