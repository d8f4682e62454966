#include "brim/memory/plan/whereabouts.h"

#include <algorithm>
#include <span>

namespace brim::memory {
namespace {

// Beyond this many requests that are not in the plan, and half as many as are, the program is
// another one: looking for the rest would cost more than it finds.
constexpr int64_t kStrays = 64;

}  // namespace

Whereabouts::Whereabouts(const Plan& plan, std::vector<ExpectedProgram>& programs)
    : plan_(plan), programs_(programs) {
  around_.reserve(4);
  if (!programs.empty()) enter(programs.front(), 0, programs.front().size());
}

Whereabouts::Move Whereabouts::end_step() noexcept {
  step_ = false;
  return now_.announced ? Move::none : leave();
}

Whereabouts::Move Whereabouts::begin_section(const Section& section) {
  if (now_.announced) {
    around_.push_back(now_);
    around_.back().part = is_planned_here(section);
    if (around_.back().part) return Move::none;
  }
  run_known_ = false;
  return enter(section);
}

Whereabouts::Move Whereabouts::end_section() noexcept {
  const bool part = !around_.empty() && around_.back().part;
  run_known_ = run_known_ && part;
  if (around_.empty()) return leave();
  Place outer = around_.back();
  around_.pop_back();
  if (part) return Move::none;
  now_ = outer;
  return now_.cursor ? Move::in : Move::out;
}

Whereabouts::Move Whereabouts::end_setup() noexcept {
  const bool in_setup = !programs_.empty() && now_.program == programs_.data();
  return in_setup ? leave() : Move::none;
}

bool Whereabouts::is_planned_here(const Section& nested) const {
  if (!now_.cursor) return false;
  for (const ExpectedSection& section : now_.program->sections)
    if (section.begin <= now_.cursor.high() && now_.cursor.high() <= section.end &&
        std::ranges::find(section.planned->nested, nested) != section.planned->nested.end())
      return true;
  return false;
}

// Out of all sections. What a step holds from one to the next is still its program's.
Whereabouts::Move Whereabouts::leave() noexcept {
  now_ = {.program = step_ ? now_.program : nullptr};
  return Move::out;
}

// Looked for in the program that runs; then where others of its kind begin, and all through these;
// then where any begins.
Whereabouts::Move Whereabouts::enter(const Section& section) {
  if (now_.program != nullptr && now_.program != &programs_.front() &&
      enter_if_known(*now_.program, section, false))
    return Move::in;
  auto known = std::span(programs_).subspan(programs_.empty() ? 0 : 1);
  for (bool first : {true, false})
    for (ExpectedProgram& program : known)
      if (program.step == step_ && enter_if_known(program, section, first)) return Move::in;
  for (ExpectedProgram& program : known)
    if (enter_if_known(program, section, true)) return Move::in;
  now_.cursor = {};
  now_.announced = true;
  return Move::none;
}

// `first`: only by the section that the program begins with.
bool Whereabouts::enter_if_known(ExpectedProgram& program, const Section& section, bool first) {
  for (const ExpectedSection& own : program.sections) {
    if (own.planned->section == section) {
      enter(program, own.body, own.end);
      now_.announced = true;
      return true;
    }
    if (first) break;
  }
  return false;
}

Whereabouts::Move Whereabouts::enter(ExpectedProgram& program, int64_t begin, int64_t end) {
  now_ = {.program = &program, .cursor = Cursor(program, plan_, begin, end, ++entered_)};
  return Move::in;
}

Whereabouts::Move Whereabouts::enter_preamble(const Request& request) {
  const bool in_setup = now_.program == programs_.data() && now_.cursor;
  if (now_.announced || (in_setup && now_.cursor.high() < now_.program->size())) return Move::none;
  ExpectedProgram* own = in_setup ? nullptr : now_.program;
  for (bool of_step : {true, false})
    for (ExpectedProgram& program : programs_) {
      if (&program == programs_.data() || (&program == own) != of_step) continue;
      for (const ExpectedSection& section : program.sections) {
        if (section.body > section.begin && expects(program, section.begin, request))
          return enter(program, section.begin, section.body);
        if (!of_step) break;
      }
    }
  return Move::none;
}

bool Whereabouts::expects(ExpectedProgram& program, int64_t i, const Request& request) const {
  const Expected& expected = program.request(i);
  return expected.bytes == request.bytes &&
         plan_.sites[static_cast<size_t>(expected.site)].op == request.site->op;
}

bool Whereabouts::loses_cursor() {
  if (!now_.cursor || ++now_.strays <= kStrays + now_.cursor.found() / 2) return false;
  now_.cursor = {};
  return true;
}

}  // namespace brim::memory
