#include "brim/memory/free_blocks.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "brim/base/bytes.h"

namespace brim::memory {
namespace {

// Below 2^9 bytes classes are 64 apart; from there on the three bits after the leading one count.
constexpr int kFirstOctave = 9, kClassBits = 3;

int octave(int64_t bytes) { return std::bit_width(static_cast<uint64_t>(bytes)) - 1; }

/// The last class that is not above `bytes`; a bin holds sizes from its class up to the next.
size_t bin(int64_t bytes) {
  int k = std::max(octave(bytes), kFirstOctave);
  return static_cast<size_t>(((k - kFirstOctave) << kClassBits) + (bytes >> (k - kClassBits)));
}

bool before(const CachedBlock* a, const CachedBlock* b) {
  return std::tuple(a->bytes, a->segment->number, a->address) <
         std::tuple(b->bytes, b->segment->number, b->address);
}

/// Makes one heap of two.
CachedBlock* meld(CachedBlock* a, CachedBlock* b) {
  if (before(b, a)) std::swap(a, b);
  b->left = a;
  b->right = a->child;
  if (a->child != nullptr) a->child->left = b;
  a->child = b;
  return a;
}

/// Makes one heap of a list of siblings: pairs from the left, then what came out from the right.
CachedBlock* meld_all(CachedBlock* first) {
  CachedBlock* pairs = nullptr;
  while (first != nullptr) {
    CachedBlock *a = first, *b = a->right;
    first = b == nullptr ? nullptr : b->right;
    if (b != nullptr) a = meld(a, b);
    a->right = pairs;
    pairs = a;
  }
  CachedBlock* heap = pairs;
  if (heap == nullptr) return nullptr;
  for (CachedBlock *pair = heap->right, *next; pair != nullptr; pair = next) {
    next = pair->right;
    heap = meld(heap, pair);
  }
  heap->left = heap->right = nullptr;
  return heap;
}

void unlink(CachedBlock* block) {
  (block->left->child == block ? block->left->child : block->left->right) = block->right;
  if (block->right != nullptr) block->right->left = block->left;
}

}  // namespace

int64_t FreeBlocks::size_class(int64_t bytes) {
  int64_t step = (int64_t{1} << octave(bytes)) >> kClassBits;
  return round_up(bytes, std::max(step, kAlignment));
}

void FreeBlocks::insert(CachedBlock* block) noexcept {
  size_t i = bin(block->bytes);
  block->child = block->left = block->right = nullptr;
  bins_[i] = bins_[i] == nullptr ? block : meld(bins_[i], block);
  filled_[i / kWordBits] |= uint64_t{1} << i % kWordBits;
}

void FreeBlocks::remove(CachedBlock* block) noexcept {
  size_t i = bin(block->bytes);
  CachedBlock* rest = meld_all(block->child);
  if (block == bins_[i]) {
    bins_[i] = rest;
    if (rest == nullptr) filled_[i / kWordBits] &= ~(uint64_t{1} << i % kWordBits);
    return;
  }
  unlink(block);
  if (rest != nullptr) bins_[i] = meld(bins_[i], rest);
}

CachedBlock* FreeBlocks::best(int64_t bytes) const noexcept {
  // Every block of the bin of a class is large enough for it.
  size_t i = bin(bytes), word = i / kWordBits;
  uint64_t bits = filled_[word] & (~uint64_t{0} << i % kWordBits);
  while (bits == 0) {
    if (++word == filled_.size()) return nullptr;
    bits = filled_[word];
  }
  return bins_[word * kWordBits + static_cast<size_t>(std::countr_zero(bits))];
}

bool FreeBlocks::empty() const noexcept {
  return std::ranges::all_of(filled_, [](uint64_t word) { return word == 0; });
}

}  // namespace brim::memory
