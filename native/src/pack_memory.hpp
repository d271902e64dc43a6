// Memory for packed weights.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tenfold {

// So many bytes, 64-byte aligned, not cleared. Small weights share regions: a weight of some hundred kilobytes then lies
// in huge pages too, which one-row products read about half as fast again. A region lives as long as any weight in it.
std::shared_ptr<uint8_t> allocate_packed(size_t bytes);

}  // namespace tenfold
