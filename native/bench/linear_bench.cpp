// Speed of the linear kernels by shape and format: GOPS (a multiply and an add are two) and bytes of weights a second.
//
//   cmake -S . -B build/bench -DTENFOLD_BENCH=ON && cmake --build build/bench --target linear_bench
//   build/bench/linear_bench [isa] [threads] [seconds a case] [type]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "../src/activations.hpp"

using namespace tenfold;

namespace {

struct Case { const char* name; int type, block, bytes; std::vector<int> scales; };

const Case kCases[] = {{"q4_1", 3, 32, 20, {0, 2}}, {"q4_k", 12, 256, 144, {0, 2}}, {"q6_k", 14, 256, 210, {208}},
                       {"q4_0", 2, 32, 18, {0}}, {"q8_0", 8, 32, 34, {0}}, {"bf16", 30, 1, 2, {0}}};

std::shared_ptr<const PackedWeight> random_weight(const Case& c, int n, int k, ThreadPool& pool) {
  std::mt19937 random(1);
  std::vector<uint8_t> data(static_cast<size_t>(n) * k / c.block * c.bytes);
  for (auto& byte : data) byte = static_cast<uint8_t>(random());
  for (size_t block = 0; block < data.size(); block += c.bytes)
    for (int offset : c.scales) data[block + offset + 1] = 0x28;  // a high byte of a small f16 or bf16
  return pack_weight(c.type, data.data(), data.size(), n, k, pool);
}

// Time of this thread alone, so that other programs do not count; with several threads, time on the clock.
double now(bool alone) {
  timespec t;
  clock_gettime(alone ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Best time of a product of `rows` rows with a set of weights that together pass the caches.
double measure(const LinearKernels& kernels, const std::vector<std::shared_ptr<const PackedWeight>>& weights, int rows,
               int n, int k, double seconds, ThreadPool& pool) {
  std::vector<float> x(static_cast<size_t>(rows) * k), y(static_cast<size_t>(rows) * n);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 2654435761u % 1000) - 500.f;
  const Form form = weight_form(kernels, *weights[0]);
  ActivationStore store(kernels, rows, k, form);
  store.plan(rows);
  for (int r = 0; r < rows; ++r) store.put(&x[static_cast<size_t>(r) * k], k, r, form);
  const Activations view = store.view(k);
  const int tiles = static_cast<int>(view.tiles->size());
  const LinearOut out{y.data(), n, nullptr, false};
  const int panels = weight_panels(*weights[0]), tasks = 4 * pool.size(), step = (panels + tasks - 1) / tasks;
  double best = 1e9;
  const double stop = now(pool.size() == 1) + seconds;
  do {
    const double start = now(pool.size() == 1);
    for (const auto& w : weights)
      pool.run(tasks, [&](int task, int) {
        const int begin = std::min(task * step, panels), end = std::min(begin + step, panels);
        if (begin < end) kernels.multiply(*w, view, 0, tiles, begin, end, out);
      });
    best = std::min(best, (now(pool.size() == 1) - start) / weights.size());
  } while (now(pool.size() == 1) < stop);
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const Isa isa = argc > 1 ? parse_isa(argv[1]) : best_isa();
  const int threads = argc > 2 ? std::atoi(argv[2]) : 1;
  const double seconds = argc > 3 ? std::atof(argv[3]) : 0.1;
  ThreadPool pool(threads);
  const LinearKernels& kernels = linear_kernels(isa);
  std::printf("%s, %d threads\n%-6s %6s %6s %5s %9s %9s\n", isa_name(isa), threads, "type", "k", "n", "rows", "GOPS",
              "GB/s");
  for (const Case& c : kCases)
    if (argc < 5 || std::string(argv[4]) == c.name) for (const auto& [k, n] : {std::pair<int, int>{576, 1536}, {1536, 8960}}) {
      if (k % c.block != 0) continue;
      std::vector<std::shared_ptr<const PackedWeight>> weights;
      size_t held = 0;
      while (held < (size_t{64} << 20)) {
        weights.push_back(random_weight(c, n, k, pool));
        held += weight_bytes(*weights.back());
      }
      for (int rows : {1, 8, 16, 32, 512}) {
        const std::vector<std::shared_ptr<const PackedWeight>> used(
            weights.begin(), rows > 32 ? weights.begin() + 1 : weights.end());
        const double time = measure(kernels, used, rows, n, k, seconds, pool);
        std::printf("%-6s %6d %6d %5d %9.1f %9.2f\n", c.name, k, n, rows, 2e-9 * rows * n * k / time,
                    1e-9 * static_cast<double>(weight_bytes(*weights[0])) / time);
      }
    }
}
