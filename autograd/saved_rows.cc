#include "brim/autograd/saved_rows.h"

#include "brim/autograd/rebuild.h"
#include "brim/core/row_view.h"

namespace brim::autograd {

SavedRows::SavedRows(SavedTensor owned, Value& value, const char* reader)
    : owned_(std::move(owned)), value_(&value), reader_(reader), sources_(sources_of_rows(value)) {}

Tensor SavedRows::rows(int64_t begin, int64_t end) const {
  if (is_whole()) return row_view(whole_, begin, end);
  return rebuild_rows(*value_, {begin, end}, reader_);
}

}  // namespace brim::autograd
