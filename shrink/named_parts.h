// Parts of a model that a caller names: modules and parameters, by dotted name, with all below
// them.
#pragma once

#include <string>
#include <vector>

#include "brim/nn/module.h"

namespace brim::shrink {

/// Throws `ValueError` under `tag`, with the nearest name, for one that the model does not have.
void require_parts(nn::Module& model, const std::vector<std::string>& names, const char* tag);

/// Is the tensor of that name among them, or below one?
bool is_in_parts(const std::string& tensor, const std::vector<std::string>& names);

}  // namespace brim::shrink
