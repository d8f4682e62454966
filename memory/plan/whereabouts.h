// Which of a plan's programs runs, and how far it has come: by the steps and sections that the
// program announces, and by the requests that it makes before it says which program it is. For the
// arena planner, which asks for every request; where in the program a request is, `Cursor` finds.
#pragma once

#include <cstdint>
#include <vector>

#include "brim/memory/plan/cursor.h"
#include "brim/memory/section.h"

namespace brim::memory {

class Whereabouts {
 public:
  /// What has changed, for who keeps count of the bytes.
  enum class Move : uint8_t {
    none,  ///< nothing that the plan knows of
    out,   ///< it is in no section, or between the sections of a program
    in,    ///< it is at `cursor().high()` of `program()`
  };

  /// It is in the first program, the set-up. Both must outlive it.
  Whereabouts(const Plan& plan, std::vector<ExpectedProgram>& programs);

  /// The program of the step, or of the section; null for none.
  ExpectedProgram* program() const { return now_.program; }
  int32_t program_number() const { return static_cast<int32_t>(now_.program - programs_.data()); }
  /// None in a section that is not planned.
  Cursor& cursor() { return now_.cursor; }
  const Cursor& cursor() const { return now_.cursor; }
  /// In a section, or between two?
  bool is_in_section() const { return now_.announced; }
  /// In a section that the plan does not know. Between sections, kept bytes go on being looked for.
  bool is_unplanned() const { return now_.announced && !now_.cursor; }

  void begin_step() { step_ = true; }
  Move end_step() noexcept;
  Move begin_section(const Section& section);
  Move end_section() noexcept;
  /// The set-up is over.
  Move end_setup() noexcept;

  /// Does a request of this site begin a run of an op, or of requests between two? Ask once for
  /// each request.
  bool begins_run(const Site& site) {
    const uint64_t run = *site.op == '\0' ? 0 : site.run;  // between two ops, none of their own
    const bool begins = !run_known_ || run != run_ || (run != 0 && site.op != run_op_);
    run_known_ = true;
    run_ = run;
    run_op_ = site.op;
    return begins;
  }
  /// Is the request the first of those that a program makes before it says which one it is: a
  /// batch, say?
  Move enter_preamble(const Request& request);
  /// The cursor did not find a request. True where that was one too many: the program is not the
  /// planned one, and there is no cursor any more.
  bool loses_cursor();

 private:
  // What of the program is running.
  struct Place {
    ExpectedProgram* program = nullptr;
    Cursor cursor;
    int64_t strays = 0;      // requests that the cursor did not find
    bool announced = false;  // are we in a section, or between two?
    bool part = false;       // the nested section is in the plan of the one around it
  };

  Move leave() noexcept;
  Move enter(const Section& section);
  bool enter_if_known(ExpectedProgram& program, const Section& section, bool first);
  Move enter(ExpectedProgram& program, int64_t begin, int64_t end);
  bool expects(ExpectedProgram& program, int64_t i, const Request& request) const;
  bool is_planned_here(const Section& nested) const;

  const Plan& plan_;
  std::vector<ExpectedProgram>& programs_;
  Place now_;
  std::vector<Place> around_;  // of nested sections, the outermost first
  bool step_ = false;
  bool run_known_ = false;  // of the request before this one:
  uint64_t run_ = 0;
  const char* run_op_ = nullptr;
  uint64_t entered_ = 0;  // sections
};

}  // namespace brim::memory
