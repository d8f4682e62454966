// What bytes are for. The account keeps live bytes by category, and messages print them so. It is a
// label: neither planner places by it. Code that makes tensors of another kind than activations
// opens a `CategoryScope`; for a tensor that changes its role later there is
// `Storage::set_category`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace brim::memory {

enum class Category : uint8_t {
  parameters,
  gradients,
  optimizer,
  activations,
  scratch,
  input,
  communication,
  other,
};

inline constexpr size_t kCategories = 8;
inline constexpr std::array<std::string_view, kCategories> kCategoryNames{
    "parameters", "gradients", "optimizer",     "activations",
    "scratch",    "input",     "communication", "other"};

constexpr std::string_view to_string(Category category) {
  return kCategoryNames[static_cast<size_t>(category)];
}

/// Bytes per category, indexed by `static_cast<size_t>(category)`.
using BytesByCategory = std::array<int64_t, kCategories>;

/// The category of tensors created on this thread; activations unless a scope says otherwise.
Category current_category();

/// Sets the category of tensors created on this thread until the scope ends.
class CategoryScope {
 public:
  explicit CategoryScope(Category category);
  ~CategoryScope();
  CategoryScope(const CategoryScope&) = delete;
  CategoryScope& operator=(const CategoryScope&) = delete;

 private:
  Category before_;
};

}  // namespace brim::memory
