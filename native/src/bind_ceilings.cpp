// Binds measure_ceilings: what this machine can do at most, with all threads of a pool.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "aligned.hpp"
#include "ceilings.hpp"
#include "pool.hpp"

namespace nb = nanobind;

namespace tenfold {
namespace {

using Clock = std::chrono::steady_clock;

// Best rate of several tries of a tenth of the time each; body(thread) returns the operations it did.
template <class Body>
double best_rate(ThreadPool& pool, double seconds, const Body& body) {
  double best = 0;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  do {
    std::vector<double> done(pool.size());
    const auto start = Clock::now();
    pool.run(pool.size(), [&](int task, int) { done[task] = body(task); });
    const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    double total = 0;
    for (double part : done) total += part;
    best = std::max(best, total / elapsed);
  } while (Clock::now() < end);
  return best;
}

nb::dict measure_ceilings(const std::string& isa, int threads, double seconds, int64_t read_bytes) {
  const CeilingKernels& kernels = ceiling_kernels(parse_isa(isa));
  double int8 = 0, bf16 = 0, fp32 = 0, memory = 0;
  {
    nb::gil_scoped_release release;
    ThreadPool pool(threads);
    constexpr int64_t kRounds = 200000;
    int8 = best_rate(pool, seconds, [&](int) { return kernels.int8(kRounds); });
    bf16 = best_rate(pool, seconds, [&](int) { return kernels.bf16(kRounds); });
    fp32 = best_rate(pool, seconds, [&](int) { return kernels.fp32(kRounds); });
    const int64_t share = read_bytes / pool.size() / 4096 * 4096;
    AlignedArray<uint8_t> memory_area(share * pool.size());
    std::memset(memory_area.get(), 1, share * pool.size());
    std::vector<uint64_t> sums(pool.size() * 8);
    memory = best_rate(pool, seconds, [&](int task) {
      sums[task * 8] = kernels.read(memory_area.get() + task * share, share);
      return static_cast<double>(share);
    });
  }
  nb::dict result;
  result["int8_gops"] = int8 / 1e9;
  result["bf16_gflops"] = bf16 / 1e9;
  result["fp32_gflops"] = fp32 / 1e9;
  result["memory_read_gbs"] = memory / 1e9;
  return result;
}

}  // namespace

void bind_ceilings(nb::module_& m) {
  using namespace nb::literals;
  m.def("measure_ceilings", &measure_ceilings, "isa"_a, "threads"_a, "seconds"_a = 0.2, "read_bytes"_a = 1 << 30,
        "Measured ceilings: int8_gops, bf16_gflops, fp32_gflops, memory_read_gbs. Takes about 4 * seconds.");
}

}  // namespace tenfold
