#include "brim/memory/proc_numbers.h"

#include <fstream>
#include <sstream>

namespace brim::memory {

std::map<std::string, int64_t> proc_numbers(const std::string& file) {
  constexpr int64_t kKibibyte = 1024;
  std::map<std::string, int64_t> numbers;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string name, unit;
    int64_t number = 0;
    if (!(words >> name >> number)) continue;
    if (name.ends_with(':')) name.pop_back();
    numbers[name] = words >> unit && unit == "kB" ? number * kKibibyte : number;
  }
  return numbers;
}

}  // namespace brim::memory
