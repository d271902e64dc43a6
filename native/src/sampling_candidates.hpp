// The tokens a row may still pick, and the filters that narrow them.
#pragma once
#include <cstdint>
#include <vector>

#include "sampling_kernels.hpp"

namespace tenfold {

// Tokens in increasing order of id with unnormalized probabilities in (0, 1].
class Candidates {
 public:
  int count() const { return count_; }
  double mass() const { return mass_; }

  // All of `weights` [vocab] that are >= least.
  void gather(const SampleKernels& kernels, const float* weights, int vocab, float least);
  // Each keeps at least one token; of equals, lower ids. of_mass is what top_p is a share of.
  void keep_typical(const SampleKernels& kernels, float typical_p);
  void keep_top_k(const SampleKernels& kernels, int k);
  void keep_top_p(const SampleKernels& kernels, float top_p, double of_mass);
  // The token at this share of the mass; count() > 0.
  int32_t pick(double uniform) const;

 private:
  enum class Order { likeliest, most_typical };  // keys are the weights; or distances from the entropy, negated
  void keep(const SampleKernels& kernels, Order order, const float* keys, double target, int most);

  int count_ = 0;
  double mass_ = 0;
  float least_ = 0;                    // a lower bound of the weights
  std::vector<int32_t> ids_;           // only the first count_ hold
  std::vector<float> weights_;         // likewise
  std::vector<float> distances_;
  std::vector<double> logs_;
  std::vector<int32_t> border_;
};

}  // namespace tenfold
