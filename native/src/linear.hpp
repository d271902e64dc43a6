// Linear layers: packed weights, quantized activations, matrix products.
//
// Same bits: an output element is one chain of operations over k in increasing order that depends on its own row and
// its own column only. Tiles may group rows and columns as they like.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "isa.hpp"
#include "pool.hpp"

namespace tenfold {

constexpr int kPanel = 16;  // output columns interleaved in a panel of packed weights
constexpr int kGroup = 32;  // elements of k that share one activation scale

struct PackedWeight;  // defined in packed_weight.hpp

// A group whose scale is more than this times the row's mean scale holds an outlier, beside which int8 leaves little of
// its neighbours: it is refined by a second int8 part. On SmolLM2 that is a tenth of the groups and takes the mean KL
// from 3.4e-3 to 0.8e-3 (bench/LOG.md).
constexpr float kRefineAbove = 1.75f;
constexpr float kLowSteps = 254.f;  // steps of the low part in one of the high part, which errs by half a step at most

// One row in int8: x = scale * q, and scale * (q + low / kLowSteps) in refined groups.
struct QuantizedRow {
  int8_t* q;          // [k_padded]
  float* scale;       // [k_padded / kGroup], as all below
  int32_t* sum;       // of q over a group
  uint8_t* refined;   // 1 or 0
  int8_t* low;        // [k_padded], written in refined groups only
  int32_t* low_sum;   // written in refined groups only
};

// Rows of activations in the forms that weights ask for. `k_padded` is k rounded up to kGroup; padding is zero.
struct Activations {
  int k = 0, k_padded = 0;
  QuantizedRow first{};         // row r of each array follows row r - 1
  uint16_t* bf16 = nullptr;     // [rows][k_padded]

  int groups() const { return k_padded / kGroup; }
  QuantizedRow row(size_t r) const {
    const size_t at = r * k_padded, group = r * groups();
    return {first.q + at, first.scale + group, first.sum + group, first.refined + group, first.low + at,
            first.low_sum + group};
  }
};

// Where products go: y[row * ld + column], with an optional bias (by column); `add` adds to what is there.
struct LinearOut {
  float* y;
  int ld;
  const float* bias;
  bool add;
};

struct LinearKernels {
  // scale = max|x| / 127 over the group; q = round-to-nearest-even(x / scale); low likewise of what q leaves.
  void (*quantize_row)(const float* x, int k, const QuantizedRow& out);
  void (*bf16_row)(const float* x, int k, uint16_t* out);
  // Rows [row_begin, row_end) times panels [panel_begin, panel_end) of w.
  void (*multiply)(const PackedWeight& w, const Activations& x, int row_begin, int row_end, int panel_begin,
                   int panel_end, const LinearOut& out);
};

const LinearKernels& linear_kernels(Isa isa);

// Packs a matrix of n rows (outputs) and k columns from a ggml storage type (number as in GGUF) for the kernels.
// Integer types are repacked without loss; F32 and F16 round to bfloat16. Throws std::invalid_argument with a sentence
// for an unsupported type, a wrong byte count, a k that the type's block does not divide, or NaN or infinite scales
// (naming the byte offset inside the tensor).
std::shared_ptr<const PackedWeight> pack_weight(int ggml_type, const uint8_t* data, size_t bytes, int n, int k,
                                                ThreadPool& pool);

int weight_rows(const PackedWeight& w);       // n
int weight_columns(const PackedWeight& w);    // k
int weight_panels(const PackedWeight& w);     // ceil(n / kPanel)
size_t weight_bytes(const PackedWeight& w);   // bytes held
bool wants_int8(const PackedWeight& w);       // else bf16
const char* weight_format(const PackedWeight& w);
void unpack_row(const PackedWeight& w, int row, float* out);  // k floats, exactly the values multiplied with

}  // namespace tenfold
