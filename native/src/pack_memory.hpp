// Memory for packed weights.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

namespace tenfold {

// So many bytes, 64-byte aligned, not cleared. Small weights share regions, so that a weight of some hundred kilobytes
// lies in huge pages too: one-row products then read it half as fast again. A region lives as long as a weight in it.
std::shared_ptr<uint8_t> allocate_packed(size_t bytes);

}  // namespace tenfold
