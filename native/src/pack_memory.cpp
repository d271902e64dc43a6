#include "pack_memory.hpp"

#include <cstdlib>
#include <mutex>
#include <new>

#include "aligned.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace tenfold {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kRegion = 16 * kHugePage;
constexpr size_t kOwnRegion = 4 * kHugePage;  // from this size on a weight has a region for itself

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

std::shared_ptr<uint8_t> new_region(size_t bytes) {
  auto* data = static_cast<uint8_t*>(std::aligned_alloc(kHugePage, bytes));
  if (data == nullptr) throw std::bad_alloc();
#if defined(__linux__)
  madvise(data, bytes, MADV_HUGEPAGE);  // advice: refusal is harmless
#endif
  return std::shared_ptr<uint8_t>(data, [](uint8_t* p) { std::free(p); });
}

struct Shared {
  std::mutex mutex;
  std::weak_ptr<uint8_t> region;
  size_t used = 0;
};

}  // namespace

std::shared_ptr<uint8_t> allocate_packed(size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  auto own = std::make_shared<AlignedArray<uint8_t>>(bytes);  // guarded
  return std::shared_ptr<uint8_t>(own, own->get());
#endif
  if (bytes >= kOwnRegion) return new_region(round_up(bytes, kHugePage));
  static Shared shared;
  std::lock_guard<std::mutex> lock(shared.mutex);
  std::shared_ptr<uint8_t> region = shared.region.lock();
  if (region == nullptr || shared.used + bytes > kRegion) {
    region = new_region(kRegion);
    shared.region = region;
    shared.used = 0;
  }
  uint8_t* data = region.get() + shared.used;
  shared.used += round_up(bytes, 64);
  return std::shared_ptr<uint8_t>(std::move(region), data);
}

}  // namespace tenfold
