#include "brim/apps/support/data_notes.h"

namespace brim::apps {
namespace {

void add_new(const std::vector<std::string>& all, const char* what, size_t& given,
             std::vector<std::string>& lines) {
  for (; given < all.size(); ++given) lines.push_back(what + all[given]);
}

void add_new(const data::Dataset* set, size_t& given, std::vector<std::string>& lines) {
  if (set == nullptr) return;
  for (std::string& note : set->notes(given)) {
    lines.push_back("note: " + std::move(note));
    ++given;
  }
}

}  // namespace

std::vector<std::string> DataNotes::next() {
  std::vector<std::string> lines;
  add_new(data_.train_set.get(), train_, lines);
  add_new(data_.val_set.get(), val_, lines);
  add_new(data_.left_out, "left out: ", left_out_, lines);
  if (data_.train_loader)
    add_new(data_.train_loader->skipped(), "skipped: ", skipped_train_, lines);
  if (data_.validation) add_new(data_.validation->skipped(), "skipped: ", skipped_val_, lines);
  return lines;
}

int64_t skipped_images(const TrainData& data) {
  auto skipped = static_cast<int64_t>(data.left_out.size());
  if (data.train_loader) skipped += data.train_loader->skipped_images();
  if (data.validation) skipped += data.validation->skipped_images();
  return skipped;
}

}  // namespace brim::apps
