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

// Rows of activations in the forms that weights ask for. `k_padded` is k rounded up to kGroup; padding is zero.
struct Activations {
  int k = 0, k_padded = 0;
  int8_t* q = nullptr;          // [rows][k_padded]
  float* scale = nullptr;       // [rows][k_padded / kGroup]
  int32_t* sum = nullptr;       // [rows][k_padded / kGroup], sums of q over a group
  uint16_t* bf16 = nullptr;     // [rows][k_padded]
};

// Where products go: y[row * ld + column], with an optional bias (by column); `add` adds to what is there.
struct LinearOut {
  float* y;
  int ld;
  const float* bias;
  bool add;
};

struct LinearKernels {
  // scale = max|x| / 127 over the group; q = round-to-nearest-even(x / scale).
  void (*quantize_row)(const float* x, int k, int8_t* q, float* scale, int32_t* sum);
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
