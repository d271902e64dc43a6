#include "sampling_candidates.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace tenfold {
namespace {

constexpr int64_t kOneBits = 0x3F800000;   // 1.0f
constexpr int64_t kInfinityBits = 0x7F800000;
constexpr int kSortAtMost = 256;

// Bits of floats >= 0 order as the floats do, so halving an interval of bits halves an interval of floats.
int64_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float float_of(int64_t bits) {
  const uint32_t low = uint32_t(bits);
  float value;
  std::memcpy(&value, &low, sizeof value);
  return value;
}

}  // namespace

void Candidates::gather(const SampleKernels& kernels, const float* weights, int vocab, float least) {
  if (int(ids_.size()) < vocab) {
    ids_.resize(vocab);
    weights_.resize(vocab);
  }
  count_ = kernels.gather(weights, vocab, least, ids_.data(), weights_.data());
  mass_ = kernels.tally(weights_.data(), weights_.data(), count_, least).mass;
  least_ = least;
}

void Candidates::keep_top_k(const SampleKernels& kernels, int k) {
  keep(kernels, Order::likeliest, weights_.data(), std::numeric_limits<double>::infinity(), k);
}

void Candidates::keep_top_p(const SampleKernels& kernels, float top_p, double of_mass) {
  keep(kernels, Order::likeliest, weights_.data(), double(top_p) * of_mass, count_);
}

void Candidates::keep_typical(const SampleKernels& kernels, float typical_p) {
  if (int(logs_.size()) < count_) {
    logs_.resize(count_);
    distances_.resize(count_);
  }
  double weighted_logs = 0;
  for (int i = 0; i < count_; ++i) {
    logs_[i] = std::log(double(weights_[i]));
    weighted_logs += double(weights_[i]) * logs_[i];
  }
  // -log p = log(mass) - log(w); its mean, the entropy, is log(mass) - mean log(w): log(mass) drops out.
  const double mean_log = weighted_logs / mass_;
  for (int i = 0; i < count_; ++i) distances_[i] = -float(std::fabs(mean_log - logs_[i]));
  keep(kernels, Order::most_typical, distances_.data(), double(typical_p) * mass_, count_);
}

// Keeps the fewest tokens of largest key whose weights reach target, and no more than `most`.
//
// Halves the interval of keys between too few and enough tokens until few are left in it, and sorts only those.
void Candidates::keep(const SampleKernels& kernels, Order order, const float* keys, double target, int most) {
  target = std::max(target, std::numeric_limits<double>::min());
  const auto bound_of = [order](int64_t rank) {  // falls as rank rises
    return order == Order::likeliest ? float_of(kOneBits - rank) : -float_of(rank);
  };
  const auto enough = [=](const Tally& tally) { return tally.count >= most || tally.mass >= target; };
  Tally inner{0, 0}, outer{count_, mass_};
  int64_t low = -1, high = order == Order::likeliest ? kOneBits - bits_of(least_) : kInfinityBits;
  if (count_ <= 1 || !enough(outer)) return;  // in top_p, rounding may leave the whole just below its share
  while (high - low > 1 && outer.count - inner.count > kSortAtMost) {
    const int64_t middle = low + (high - low) / 2;
    const Tally tally = kernels.tally(keys, weights_.data(), count_, bound_of(middle));
    (enough(tally) ? high : low) = middle;
    (enough(tally) ? outer : inner) = tally;
  }

  const float inside = low < 0 ? std::numeric_limits<float>::infinity() : bound_of(low), outside = bound_of(high);
  border_.clear();
  for (int i = 0; i < count_; ++i)
    if (keys[i] >= outside && !(keys[i] >= inside)) border_.push_back(i);
  if (high - low > 1)  // else all keys are equal
    std::sort(border_.begin(), border_.end(),
              [keys](int32_t a, int32_t b) { return keys[a] != keys[b] ? keys[a] > keys[b] : a < b; });
  size_t taken = 0;
  for (Tally reached = inner; taken < border_.size() && !enough(reached); ++taken) {
    reached.count++;
    reached.mass += weights_[border_[taken]];
  }

  const int32_t last = border_[taken - 1];  // inner is not enough and outer is, so some are taken
  const float last_key = keys[last];
  int left = 0;
  for (int i = 0; i < count_; ++i) {
    ids_[left] = ids_[i];
    const float weight = weights_[i];
    const bool kept = keys[i] > last_key || (keys[i] == last_key && i <= last);
    weights_[left] = weight;
    left += kept;
  }
  count_ = left;
  mass_ = kernels.tally(weights_.data(), weights_.data(), count_, 0.f).mass;
}

int32_t Candidates::pick(double uniform) const {
  const double target = uniform * mass_;
  double reached = 0;
  for (int i = 0; i + 1 < count_; ++i) {
    reached += weights_[i];
    if (reached > target) return ids_[i];
  }
  return ids_[count_ - 1];
}

}  // namespace tenfold
