#include "brim/data/check_images.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

#include "brim/base/error.h"
#include "brim/base/parallel.h"
#include "brim/io/checksum.h"

namespace brim::data {
namespace {

template <class T>
void add_number(io::Checksum& sum, T number) {
  sum.add(std::as_bytes(std::span(&number, 1)));
}

uint64_t checksum_of(const Image& image, int64_t label) {
  io::Checksum sum;
  add_number(sum, label);
  add_number(sum, image.width);
  add_number(sum, image.height);
  sum.add(std::as_bytes(std::span(image.pixels)));
  return sum.value();
}

/// What the threads of one check share.
struct Check {
  const Dataset& dataset;
  std::atomic<int64_t> next = 0;
  std::vector<uint64_t> checksums;  // 0 of a bad one
  std::mutex mutex;                 // of what follows
  std::vector<BadPicture> bad;
  std::exception_ptr failure;

  void work() try {
    for (int64_t i; (i = next++) < dataset.size();) {
      try {
        checksums[static_cast<size_t>(i)] = checksum_of(dataset.read(i, 0), dataset.label(i));
      } catch (const FileError& error) {
        std::lock_guard lock(mutex);
        bad.push_back({i, error.what()});
      }
    }
  } catch (...) {
    next = dataset.size();
    std::lock_guard lock(mutex);
    failure = std::current_exception();
  }
};

}  // namespace

CheckedImages check_images(const Dataset& dataset, int workers) {
  Check check{.dataset = dataset,
              .checksums = std::vector<uint64_t>(static_cast<size_t>(dataset.size()))};
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < workers; ++i)
      threads.emplace_back([&] {
        NoParallelScope no_parallel;
        check.work();
      });
    if (workers == 0) check.work();
  }
  if (check.failure) std::rethrow_exception(check.failure);
  std::ranges::sort(check.bad, {}, &BadPicture::index);
  io::Checksum contents;
  contents.add(std::as_bytes(std::span(check.checksums)));
  return {std::move(check.bad), contents.value()};
}

uint64_t names_checksum(const Dataset& dataset, std::string_view folder) {
  io::Checksum sum;
  for (const std::string& name : dataset.class_names()) sum.add(name);
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const std::string name = dataset.describe(i);
    std::string_view rest = name;
    if (rest.starts_with(folder)) rest.remove_prefix(folder.size());
    while (!folder.empty() && rest.starts_with('/')) rest.remove_prefix(1);
    sum.add(rest);
    add_number(sum, dataset.label(i));
  }
  return sum.value();
}

}  // namespace brim::data
