#include "brim/io/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "brim/base/nearest.h"
#include "brim/core/transfer.h"
#include "brim/io/atomic_file.h"
#include "brim/io/safetensors_header.h"
#include "brim/io/tensor_bytes.h"

namespace brim::io {
namespace {

constexpr const char* kTag = kSafetensorsTag;
// The header's length, little-endian, in front of it.
using HeaderLength = std::array<std::byte, 8>;

std::string read_header(const InputFile& file) {
  HeaderLength prefix{};
  expect<FileError>(file.size() >= int64_t{sizeof prefix}, kTag,
                    "'{}' has {} bytes, too few for a safetensors file", file.path(), file.size());
  file.read(0, prefix);
  uint64_t length = 0;
  std::memcpy(&length, prefix.data(), sizeof length);
  auto room = static_cast<uint64_t>(file.size()) - sizeof prefix;
  expect<FileError>(length <= room, kTag,
                    "'{}' states a header of {} bytes, but has {} after its length; is it a "
                    "safetensors file?",
                    file.path(), length, room);
  expect<FileError>(length <= uint64_t{kLongestHeader}, kTag,
                    "'{}' has a header of {} bytes, more than the limit of {}", file.path(), length,
                    kLongestHeader);
  std::string text(length, '\0');
  file.read(sizeof prefix, std::as_writable_bytes(std::span(text)));
  return text;
}

/// The tensors in the order in which their bytes are written.
std::vector<const NamedBytes*> in_file_order(std::span<const NamedBytes> tensors) {
  std::vector<const NamedBytes*> order;
  for (const NamedBytes& entry : tensors) order.push_back(&entry);
  std::ranges::sort(order, {}, [](const NamedBytes* entry) {
    return std::pair(-size_of(entry->tensor.dtype()), entry->name);
  });
  return order;
}

void check_tensors(std::span<const NamedBytes> tensors) {
  std::vector<std::string> names;
  for (const NamedBytes& entry : tensors) {
    names.push_back(entry.name);
    expect<DeviceError>(!entry.tensor.device().is_meta(), kTag,
                        "expected values of '{}', got a tensor on {}", entry.name,
                        entry.tensor.device());
  }
  std::ranges::sort(names);
  auto twice = std::ranges::adjacent_find(names);
  if (twice != names.end()) raise<ValueError>(kTag, "two tensors are called '{}'", *twice);
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path, kTag) {
  std::string text = read_header(file_);
  data_offset_ = static_cast<int64_t>(sizeof(HeaderLength) + text.size());
  SafetensorsHeader header = parse_header(text, file_.size() - data_offset_, path);
  tensors_ = std::move(header.tensors);
  metadata_ = std::move(header.metadata);
}

const TensorInfo* SafetensorsFile::find(std::string_view name) const {
  auto at = std::ranges::lower_bound(tensors_, name, {}, &TensorInfo::name);
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

const TensorInfo& SafetensorsFile::info(std::string_view name) const {
  if (const TensorInfo* found = find(name)) return *found;
  std::vector<std::string> known;
  for (const TensorInfo& tensor : tensors_) known.push_back(tensor.name);
  raise<ValueError>(kTag, "'{}' has no tensor '{}'{}", path(), name, did_you_mean(name, known));
}

Tensor SafetensorsFile::read(std::string_view name) const {
  const TensorInfo& tensor = info(name);
  Tensor result = empty(tensor.shape, {.dtype = tensor.dtype});
  read_elements(file_, data_offset_ + tensor.begin, fmt::format("tensor '{}'", name), result);
  return result;
}

void SafetensorsFile::read_into(std::string_view name, const Tensor& to) const {
  const TensorInfo& tensor = info(name);
  expect<ShapeError>(to.shape() == tensor.shape, kTag, "'{}': tensor '{}' is {}, got room for {}",
                     path(), name, tensor.shape, to.shape());
  // A bool is checked before others see it.
  if (to.dtype() == tensor.dtype && to.dtype() != Dtype::boolean && to.is_contiguous() &&
      to.device().is_cpu())
    return read_elements(file_, data_offset_ + tensor.begin, name, to);
  transfer_into(to, read(name));
}

void write_safetensors(const std::string& path, std::span<const NamedBytes> tensors,
                       const Metadata& metadata) {
  check_tensors(tensors);
  std::vector<const NamedBytes*> order = in_file_order(tensors);
  std::vector<TensorInfo> infos;
  int64_t end = 0;
  for (const NamedBytes* entry : order) {
    const Tensor& tensor = entry->tensor;
    int64_t begin = end;
    end += tensor.numel() * size_of(tensor.dtype());
    infos.push_back({entry->name, tensor.dtype(), tensor.shape(), begin, end});
  }
  std::string header = format_header(infos, metadata);
  uint64_t length = header.size();
  AtomicFile file(path, kTag);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const NamedBytes* entry : order)
    file.write(bytes_of(contiguous(staged_on_host(entry->tensor))));
  file.commit();
}

void check_metadata(const Metadata& metadata) { (void)format_header({}, metadata); }

}  // namespace brim::io
