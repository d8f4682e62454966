// The bodies of `judge_update` and `judge_piece`, for every device. For kernels.
#pragma once

#include <cmath>
#include <cstdint>

#include "brim/optim/judge.h"
#include "brim/optim/step_scalars.h"

namespace brim::optim {

/// The norm of all gradients as one vector, from the sums of the squares of each (`square_sum`), in
/// their order. NaN where one of them has an element that is not finite, and only then.
BRIM_HOST_DEVICE inline double norm_of(const double* square_sums, int64_t count) {
  double total = 0;
  for (int64_t i = 0; i < count; ++i) total += square_sums[i];
  return std::sqrt(total);
}

struct JudgeUpdate {
  const double* square_sums;
  int64_t count;
  const double* loss;
  double *scalars, *verdict, *rest;

  explicit JudgeUpdate(const KernelCall& call)
      : square_sums(call.in[0].as<double>()),
        count(call.in[0].numel()),
        loss(call.in[1].as<double>()),
        scalars(call.out[0].as<double>()),
        verdict(call.out[1].as<double>()),
        rest(call.out[2].present ? call.out[2].as<double>() : nullptr) {}

  // 0 * x is a zero for finite x alone.
  BRIM_HOST_DEVICE void operator()() const {
    const double norm = norm_of(square_sums, count);
    const bool applied = norm == norm && 0 * *loss == 0;
    scalars[StepScalars::kClipFactor] = clip_factor(norm, scalars[StepScalars::kClipNorm]);
    scalars[StepScalars::kApplied] = applied;
    verdict[kVerdictApplied] = applied;
    verdict[kVerdictNorm] = norm;
    if (rest != nullptr && !applied) *rest = 0;
  }
};

struct JudgePiece {
  const double* number;
  double *scalars, *verdict;
  PieceJudged judged;

  JudgePiece(const KernelCall& call, const kernel::JudgePieceAttributes& a)
      : number(call.in[0].as<double>()),
        scalars(call.out[0].as<double>()),
        verdict(call.out[1].as<double>()),
        judged(a.judged) {}

  // A sum of squares is NaN where an element was not finite, and only then.
  BRIM_HOST_DEVICE void operator()() const {
    double &applied = scalars[StepScalars::kApplied], &pieces = verdict[kVerdictPieces];
    if (judged == PieceJudged::loss) {
      applied = 0 * *number == 0;
      pieces = 0;
      return;
    }
    if (judged == PieceJudged::updated) pieces += applied;
    if (*number != *number) applied = 0;
    if (judged == PieceJudged::gradient) pieces += applied;
  }
};

}  // namespace brim::optim
