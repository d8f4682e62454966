// Where the time of an update goes, as a page for a browser: a bar of its parts, and tables of
// modules, as a tree, of ops, and of ops in modules, to be sorted by each column. One file that
// needs nothing beside it; without JavaScript nothing is sorted or folded. The numbers come from
// train/profile_report.h.
#pragma once

#include <string>
#include <vector>

namespace brim::memory {

/// A part of the bar.
struct ProfilePart {
  std::string name;  ///< "forward, 12.3 ms"
  double share = 0;  ///< of the whole, 0 to 1
};

struct ProfileCell {
  std::string text;
  double value = 0;  ///< that rows are sorted by
};

struct ProfileRow {
  std::string name;
  double share = 0;  ///< of the update's time, 0 to 1
  std::vector<ProfileCell> cells;
  int depth = 0;  ///< rows below one of less depth, up to the next such, are parts of it
};

struct ProfileTable {
  std::vector<std::string> columns;  ///< names of the rows' cells; name and share have columns too
  std::vector<ProfileRow> rows;
};

struct ProfilePage {
  std::string title = "Time of a training";
  std::vector<std::string> subtitle;  ///< lines below it: the model, the batch
  std::vector<std::string> summary;   ///< sentences above the tables
  std::vector<ProfilePart> parts;
  ProfileTable modules, ops;
  ProfileTable calls;  ///< of ops in modules
};

/// The page, in HTML. Throws `ValueError` for a row with more or fewer cells than there are
/// columns, for a first row that is below another, and for a share that is no number from 0.
std::string profile_page(const ProfilePage& page);

}  // namespace brim::memory
