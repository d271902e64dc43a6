// The tokens a row may still pick, and the filters that narrow them.
#pragma once
#include <cstdint>
#include <limits>
#include <vector>

namespace tenfold {

// Tokens in increasing order of id with unnormalized probabilities in (0, 1].
class Candidates {
 public:
  std::vector<int32_t> ids;      // only the first `count` hold
  std::vector<float> weights;    // likewise
  int count = 0;
  double mass = 0;               // sum of the weights, in order of id

  void reserve(int vocab);
  void sum();                                        // sets mass
  void keep_typical(float typical_p);
  void keep_top_k(int k) { keep_likeliest(std::numeric_limits<double>::infinity(), k); }
  void keep_top_p(float top_p, double of_mass) { keep_likeliest(double(top_p) * of_mass, count); }
  int32_t pick(double uniform) const;                // the token at this share of the mass; count > 0

 private:
  void keep_likeliest(double target, int most);
  // Keeps the fewest tokens of smallest (key, id) whose weights reach target, and no more than `most`.
  void keep(double target, int most);

  static constexpr int kShift = 19;                  // keys are below 2^31
  std::vector<uint32_t> keys_;                       // one a token
  std::vector<int32_t> bucket_counts_, border_;
  std::vector<double> bucket_masses_;
};

}  // namespace tenfold
