// Several settings with a few options each, chosen again and again by how well runs went with them.
// The packer's own.
//
// Each setting is a bandit of its own (UCB1: Auer, Cesa-Bianchi and Fischer, "Finite-time analysis
// of the multiarmed bandit problem", Machine Learning 47, 2002): it takes the option with the best
// mean reward plus what may be unknown of it, sqrt(log(runs) / runs of the option) deviations of
// all rewards. So every run teaches something about every setting, where one bandit over all
// combinations would have to try each of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "brim/base/random.h"

namespace brim::memory::packing {

class Tuner {
 public:
  /// `options[i]` is how many options setting i has.
  explicit Tuner(std::span<const int> options);

  /// Chooses an option of each setting; among equals by chance.
  void choose(RandomStream& random);
  int chosen(int setting) const { return settings_[static_cast<size_t>(setting)].chosen; }
  /// How well it went with what was chosen last.
  void learn(double reward);
  /// Begins anew: what was lucky at first is not preferred for ever.
  void forget();
  int runs() const { return runs_; }

 private:
  struct Option {
    double rewards = 0;
    int runs = 0;
  };
  struct Setting {
    std::vector<Option> options;
    int chosen = 0;
  };

  double worth(const Option& option) const;

  std::vector<Setting> settings_;
  double rewards_ = 0, squares_ = 0;
  int runs_ = 0;
};

}  // namespace brim::memory::packing
