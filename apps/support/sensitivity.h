// How much a trained model misses each of its layers' channels: accuracy without a share of those
// of one group alone, for all groups and some shares. As a table and as a page for a browser, which
// needs nothing beside it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "brim/apps/support/prune_flags.h"
#include "brim/apps/support/train_data.h"

namespace brim::apps {

struct GroupSensitivity {
  std::string name;                ///< of the group
  int64_t channels = 0;            ///< that its layer has
  std::vector<double> accuracies;  ///< one for each share
};

struct Sensitivity {
  double accuracy = 0;         ///< of the whole model, on the same images
  int64_t images = 0;          ///< that all accuracies are of
  std::vector<double> shares;  ///< of a group's channels that are gone
  std::vector<GroupSensitivity> groups;
};

/// `make_model` gives the trained model, a new one each time. `say` is told of each group that is
/// done. Throws `ValueError` where the data has no images to validate.
Sensitivity measure_sensitivity(const PruneFlags& flags, TrainData& data,
                                const std::function<std::unique_ptr<nn::Module>()>& make_model,
                                const std::function<void(const std::string&)>& say);

/// A line for each group, the most sensitive first.
std::string to_table(const Sensitivity& sensitivity);
/// The same in HTML, with a curve for each group.
std::string sensitivity_page(const Sensitivity& sensitivity, const std::string& title);

}  // namespace brim::apps
