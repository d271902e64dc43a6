#include "sampling_candidates.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace tenfold {
namespace {

// Bits of a float >= 0, which order as the float does.
uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits & 0x7FFFFFFFu;
}

constexpr uint32_t kOneBits = 0x3F800000u;

}  // namespace

void Candidates::reserve(int vocab) {
  if (int(ids.size()) >= vocab) return;
  ids.resize(vocab);
  weights.resize(vocab);
  keys_.resize(vocab);
}

void Candidates::sum() {
  mass = 0;
  for (int i = 0; i < count; ++i) mass += weights[i];
}

void Candidates::keep_likeliest(double target, int most) {
  if (target == std::numeric_limits<double>::infinity() && most >= count) return;
  for (int i = 0; i < count; ++i) keys_[i] = kOneBits - std::min(bits_of(weights[i]), kOneBits);
  keep(target, most);
}

void Candidates::keep_typical(float typical_p) {
  double weighted_logs = 0;
  for (int i = 0; i < count; ++i) weighted_logs += double(weights[i]) * std::log(double(weights[i]));
  // -log p = log(mass) - log(w); its mean, the entropy, is log(mass) - mean log(w): log(mass) drops out.
  const double mean_log = weighted_logs / mass;
  for (int i = 0; i < count; ++i) keys_[i] = bits_of(float(std::fabs(mean_log - std::log(double(weights[i])))));
  keep(double(typical_p) * mass, count);
}

void Candidates::keep(double target, int most) {
  const int buckets = (1u << 31) >> kShift;
  bucket_counts_.assign(buckets, 0);
  bucket_masses_.assign(buckets, 0.0);
  for (int i = 0; i < count; ++i) {
    bucket_counts_[keys_[i] >> kShift]++;
    bucket_masses_[keys_[i] >> kShift] += weights[i];
  }
  int kept = 0;
  double reached = 0;
  uint32_t border = 0;
  for (; border < uint32_t(buckets); ++border) {
    if (bucket_counts_[border] == 0) continue;
    if (kept + bucket_counts_[border] >= most || reached + bucket_masses_[border] >= target) break;
    kept += bucket_counts_[border];
    reached += bucket_masses_[border];
  }
  if (border == uint32_t(buckets)) return;  // rounding left the sum just below the target: all are needed

  border_.clear();
  for (int i = 0; i < count; ++i)
    if (keys_[i] >> kShift == border) border_.push_back(i);
  std::sort(border_.begin(), border_.end(), [this](int32_t a, int32_t b) {
    return keys_[a] != keys_[b] ? keys_[a] < keys_[b] : a < b;
  });
  int32_t last = border_.back();
  for (int32_t i : border_) {
    reached += weights[i];
    if (++kept >= most || reached >= target) {
      last = i;
      break;
    }
  }
  const uint32_t last_key = keys_[last];
  int left = 0;
  for (int i = 0; i < count; ++i) {
    if (keys_[i] > last_key || (keys_[i] == last_key && i > last)) continue;
    ids[left] = ids[i];
    weights[left++] = weights[i];
  }
  count = left;
  sum();
}

int32_t Candidates::pick(double uniform) const {
  const double target = uniform * mass;
  double reached = 0;
  for (int i = 0; i + 1 < count; ++i) {
    reached += weights[i];
    if (reached > target) return ids[i];
  }
  return ids[count - 1];
}

}  // namespace tenfold
