// What the parts of NativeProgram that run a step share.
#pragma once
#include <chrono>
#include <vector>

#include "program.hpp"

namespace tenfold {

// Row stages below this many element-operations run on the calling thread: a dispatch costs about a microsecond.
constexpr int64_t kSerialCost = 24000;
constexpr int kTasksPerThread = 4;
constexpr size_t kGatedFloats = 32768;  // of gate and up: what a thread computes before it joins them

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Adds its lifetime to a total.
class Timer {
 public:
  explicit Timer(double& total) : total_(total), start_(Clock::now()) {}
  ~Timer() { total_ += seconds_since(start_); }

 private:
  double& total_;
  Clock::time_point start_;
};

struct NativeProgram::Run {
  const StepInput& input;
  std::vector<int32_t> positions;
  std::vector<AttentionSequence> sequences;
  float* logits_out;
  const SampleParams* params;
  Sampled* sampled;
  Scored* scored;
};

}  // namespace tenfold
