// Memory for rows of activations.
#pragma once
#include <cstddef>

#include "aligned.hpp"
#include "linear.hpp"

namespace tenfold {

class ActivationStore {
 public:
  ActivationStore() = default;
  ActivationStore(size_t rows, int k) {
    const size_t padded = static_cast<size_t>(k + kGroup - 1) / kGroup * kGroup, groups = padded / kGroup;
    q_ = AlignedArray<int8_t>(rows * padded);
    low_ = AlignedArray<int8_t>(rows * padded);
    scale_ = AlignedArray<float>(rows * groups);
    sum_ = AlignedArray<int32_t>(rows * groups);
    low_sum_ = AlignedArray<int32_t>(rows * groups);
    refined_ = AlignedArray<uint8_t>(rows * groups);
    bf16_ = AlignedArray<uint16_t>(rows * padded);
  }

  // Rows of k columns, at most as many as the store was made for.
  Activations view(int k) const {
    return {k, (k + kGroup - 1) / kGroup * kGroup,
            {q_.get(), scale_.get(), sum_.get(), refined_.get(), low_.get(), low_sum_.get()}, bf16_.get()};
  }

 private:
  AlignedArray<int8_t> q_, low_;
  AlignedArray<float> scale_;
  AlignedArray<int32_t> sum_, low_sum_;
  AlignedArray<uint8_t> refined_;
  AlignedArray<uint16_t> bf16_;
};

}  // namespace tenfold
