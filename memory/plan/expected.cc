#include "brim/memory/plan/expected.h"

#include <algorithm>
#include <map>

namespace brim::memory {
namespace {

// Who had each byte last.
class LastOwners {
 public:
  // The owners of bytes from `begin` to `end`, which are `owner`'s from now on.
  std::vector<int32_t> take(int64_t begin, int64_t end, int32_t owner) {
    split(begin);
    split(end);
    std::vector<int32_t> before;
    auto first = pieces_.lower_bound(begin), last = pieces_.lower_bound(end);
    for (auto piece = first; piece != last; ++piece)
      if (std::ranges::find(before, piece->second.owner) == before.end())
        before.push_back(piece->second.owner);
    pieces_.erase(first, last);
    pieces_[begin] = {end, owner};
    return before;
  }

 private:
  struct Piece {
    int64_t end;
    int32_t owner;
  };

  void split(int64_t at) {
    auto piece = pieces_.lower_bound(at);
    if (piece == pieces_.begin()) return;
    --piece;
    if (piece->second.end <= at) return;
    pieces_[at] = piece->second;
    piece->second.end = at;
  }

  std::map<int64_t, Piece> pieces_;  // by begin
};

int32_t kept_with(const Plan& plan, int64_t bytes) {
  auto found = std::ranges::find(plan.kept, bytes, &KeptPlaces::bytes);
  return static_cast<int32_t>(found - plan.kept.begin());
}

void add_section(ExpectedProgram& program, const PlannedSection& section, const Plan& plan) {
  int64_t begin = program.size();
  auto size = static_cast<int64_t>(section.requests.size());
  program.sections.push_back({&section, begin, begin + section.preamble, begin + size});
  for (const PlannedRequest& request : section.requests) {
    program.blocks.push_back({.offset = request.offset,
                              .bytes = request.bytes,
                              .birth = program.size(),
                              .death = request.death});
    program.requests.push_back({.bytes = request.bytes,
                                .site = request.site,
                                .kept = request.offset < 0 ? kept_with(plan, request.bytes) : -1,
                                .begins_run = request.begins_run});
  }
}

void find_before(ExpectedProgram& program) {
  LastOwners owners;
  for (const ExpectedSection& section : program.sections)
    for (int64_t i = section.begin; i < section.end; ++i) {
      Expected& request = program.request(i);
      request.first_before = static_cast<uint32_t>(program.before.size());
      if (request.kept >= 0) continue;
      const ArenaBlock& block = program.block(i);
      for (int32_t owner :
           owners.take(block.offset, block.offset + block.bytes, static_cast<int32_t>(i))) {
        auto own = [owner](const ExpectedSection& s) { return s.begin <= owner && owner < s.end; };
        const ExpectedSection& of_owner = *std::ranges::find_if(program.sections, own);
        if (owner >= section.begin || program.block(owner).death > of_owner.end)
          program.before.push_back(owner);
      }
      request.before_count = static_cast<uint32_t>(program.before.size()) - request.first_before;
    }
}

}  // namespace

std::vector<ExpectedProgram> expect_programs(const Plan& plan) {
  std::vector<ExpectedProgram> programs;
  for (const PlannedProgram& planned : plan.programs) {
    ExpectedProgram& program = programs.emplace_back();
    program.step = planned.step;
    for (const PlannedSection& section : planned.sections) add_section(program, section, plan);
    for (ArenaBlock& block : program.blocks)
      block.program = static_cast<int32_t>(programs.size()) - 1;
    find_before(program);
  }
  return programs;
}

}  // namespace brim::memory
