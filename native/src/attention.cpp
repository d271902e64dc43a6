// The plan of an attention call: units of work, who writes the cache, and what is computed apart and merged.
#include <algorithm>
#include <atomic>
#include <new>
#include <stdexcept>
#include <string>

#include "attention_kernels.hpp"

namespace tenfold {
namespace {

constexpr int kNone = -1;
constexpr int kWriteRows = 32;  // rows of a task that only writes the cache

// Memory that grows and keeps nothing when it does.
template <class T>
class Buffer {
 public:
  ~Buffer() { drop(); }
  T* at_least(size_t n) {
    if (n > size_) {
      drop();
      size_ = 0;
      data_ = static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{64}));
      size_ = n;
    }
    return data_;
  }
  T* data() const { return data_; }

 private:
  void drop() {
    if (data_ != nullptr) ::operator delete(data_, std::align_val_t{64});
    data_ = nullptr;
  }
  T* data_ = nullptr;
  size_t size_ = 0;
};

size_t aligned(size_t bytes) { return (bytes + 63) / 64 * 64; }

AttentionPartial partial_at(float* memory, int queries) {
  return {memory, memory + queries, memory + 2 * queries};
}

size_t partial_floats(int queries, int head_dim) {
  return aligned((static_cast<size_t>(queries) * (head_dim + 2)) * sizeof(float)) / sizeof(float);
}

// One unit of work. If computed apart, its splits are shared out among tasks; who ends the last of them merges.
struct Job {
  AttentionUnit unit;
  int split, splits;     // splits [split, split + splits) hold all that the unit's queries see
  bool writes;           // writes its rows of K and V first
  int apart;             // its number among jobs computed apart, or kNone
  size_t partials;       // then: where its partials begin,
  int tasks;             // and how many tasks share it
  int queries() const { return unit.rows * unit.heads; }
};

struct Task {  // splits [split, end) of a job computed apart; or `jobs` whole jobs, one after another
  int job, split, end, jobs;
};
struct Write { int sequence, begin, end; };

void check(const AttentionCall& call) {
  const KvGeometry& g = call.geometry;
  const auto refuse = [](const std::string& what) { throw std::invalid_argument(what); };
  if (g.head_dim < 16 || g.head_dim > kMaxHeadDim || g.head_dim % 16 != 0)
    refuse("attention takes a head_dim that is a multiple of 16 up to " + std::to_string(kMaxHeadDim) +
           "; this model's is " + std::to_string(g.head_dim) + ".");
  if (g.block_size < kTile || g.block_size % kTile != 0)
    refuse("attention takes a block_size that is a multiple of 16; got " + std::to_string(g.block_size) + ".");
  if (g.num_kv_heads < 1 || call.num_heads < 1 || call.num_heads % g.num_kv_heads != 0)
    refuse("attention needs num_heads (" + std::to_string(call.num_heads) + ") to be a multiple of num_kv_heads (" +
           std::to_string(g.num_kv_heads) + ").");
}

const AttentionKernels& kernels_of(Isa isa) {
#ifdef TENFOLD_AMX
  if (isa == Isa::amx) return attention_amx();
#endif
#ifdef TENFOLD_X86
  if (isa >= Isa::avx512) return attention_avx512();
  if (isa == Isa::avx2) return attention_avx2();
#endif
  return attention_generic();
}

}  // namespace

struct AttentionScratch::State {
  std::vector<Job> jobs;
  std::vector<Task> tasks;
  std::vector<Write> writes;
  size_t partials = 0;  // floats that jobs computed apart need
  int apart = 0;        // how many such jobs there are
  size_t per_thread = 0;
  Buffer<char> workspaces;
  Buffer<float> partial_memory;
  Buffer<std::atomic<int>> left;  // tasks to go, by apart number

  void plan(const AttentionCall& call, const AttentionKernels& kernels, int threads);
  void run(const AttentionCall& call, const AttentionKernels& kernels, ThreadPool& pool);

 private:
  void add_sequence(const AttentionCall& call, int index, int rows_per_unit, int heads_per_unit);
  void add_tasks(int threads, double total);
  void run_job(const AttentionCall& call, const AttentionKernels& kernels, const Job& job, const Job* next,
               char* memory) const;
  void run_apart(const AttentionCall& call, const AttentionKernels& kernels, const Task& task, char* memory);
};

namespace {

// Work of a job, in arbitrary units: tokens walked, times queries plus what loading K and V costs.
double cost(const Job& job) {
  return static_cast<double>(job.splits) * kSplit * (job.queries() + 6);
}

int units_of(const AttentionCall& call, int rows_per_unit, int heads_per_unit) {
  const int group = call.num_heads / call.geometry.num_kv_heads;
  const int head_parts = (group + heads_per_unit - 1) / heads_per_unit;
  int units = 0;
  for (int i = 0; i < call.num_sequences; ++i)
    units += (call.sequences[i].count + rows_per_unit - 1) / rows_per_unit * head_parts * call.geometry.num_kv_heads;
  return units;
}

}  // namespace

// A unit that has its KV head and sequence to itself writes K and V as it goes; else they are written beforehand.
void AttentionScratch::State::add_sequence(const AttentionCall& call, int index, int rows_per_unit,
                                           int heads_per_unit) {
  const AttentionSequence& s = call.sequences[index];
  if (s.count <= 0) return;
  const int group = call.num_heads / call.geometry.num_kv_heads;
  const bool alone = s.count <= rows_per_unit && group <= heads_per_unit;
  if (!alone)
    for (int row = 0; row < s.count; row += kWriteRows)
      writes.push_back({index, row, std::min(s.count, row + kWriteRows)});
  // The last rows see the most, so they go first: long jobs at the end would leave threads idle.
  for (int row = (s.count - 1) / rows_per_unit * rows_per_unit; row >= 0; row -= rows_per_unit) {
    const int rows = std::min(rows_per_unit, s.count - row), start = s.start + row;
    const int first_seen = call.window > 0 ? std::max(0, start - call.window + 1) : 0;
    // Rows written by a job itself may lie before what its rows see, never before their own positions.
    const int split = std::min(first_seen, start) / kSplit, last = (start + rows - 1) / kSplit;
    for (int kv_head = 0; kv_head < call.geometry.num_kv_heads; ++kv_head)
      for (int head = 0; head < group; head += heads_per_unit) {
        const int heads = std::min(heads_per_unit, group - head);
        jobs.push_back({{s.row + row, rows, start, kv_head, kv_head * group + head, heads, s.blocks},
                        split, last - split + 1, alone, kNone, 0, 1});
      }
  }
}

void AttentionScratch::State::plan(const AttentionCall& call, const AttentionKernels& kernels, int threads) {
  jobs.clear();
  tasks.clear();
  writes.clear();
  partials = 0;
  apart = 0;
  const int group = call.num_heads / call.geometry.num_kv_heads;
  const int heads_per_unit = std::min(group, kernels.max_queries);
  int rows_per_unit = kernels.max_queries / heads_per_unit;
  // Few units for many threads: smaller ones, as long as they still share loads well.
  while (threads > 1 && rows_per_unit * heads_per_unit > kernels.few_queries && rows_per_unit > 1 &&
         units_of(call, rows_per_unit, heads_per_unit) < 3 * threads)
    rows_per_unit = (rows_per_unit + 1) / 2;
  for (int i = 0; i < call.num_sequences; ++i) add_sequence(call, i, rows_per_unit, heads_per_unit);

  double total = 0;
  for (const Job& job : jobs) total += cost(job);
  for (Job& job : jobs) {
    if (threads == 1 || job.splits == 1 || cost(job) * 4 * threads <= total) continue;
    job.apart = apart++;
    job.partials = partials;
    partials += partial_floats(job.queries(), call.geometry.head_dim) * job.splits;
    // Neighbouring splits to a task, so that one can ask memory for the next one's keys; enough tasks all the same.
    const int chunk = std::max(1, static_cast<int>(total / (8 * threads) / (cost(job) / job.splits)));
    const int end = job.split + job.splits;
    job.tasks = 0;
    for (int split = job.split; split < end; split += chunk, ++job.tasks)
      tasks.push_back({static_cast<int>(&job - jobs.data()), split, std::min(end, split + chunk), 0});
  }
  add_tasks(threads, total);
}

// Small jobs that follow one another become one task: while one is computed, memory is asked for the next one's keys.
void AttentionScratch::State::add_tasks(int threads, double total) {
  const double enough = total / (8 * threads);
  double gathered = 0;
  bool open = false;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i].apart != kNone) {
      open = false;
      continue;
    }
    if (!open || gathered + cost(jobs[i]) > enough) {
      tasks.push_back({static_cast<int>(i), 0, 0, 0});
      gathered = 0;
    }
    open = true;
    gathered += cost(jobs[i]);
    ++tasks.back().jobs;
  }
}

// A thread's memory: the kernel's workspace, then two partials (the splits so far, and the next).
void AttentionScratch::State::run_job(const AttentionCall& call, const AttentionKernels& kernels, const Job& job,
                                      const Job* following, char* memory) const {
  const AttentionUnit& unit = job.unit;
  const int head_dim = call.geometry.head_dim, queries = job.queries();
  float* floats = reinterpret_cast<float*>(memory + aligned(kernels.workspace_bytes));
  const AttentionPartial total = partial_at(floats, queries);
  const AttentionPartial next = partial_at(floats + partial_floats(queries, head_dim), queries);
  if (job.writes) kernels.write(call, unit.blocks, unit.kv_head, unit.row, unit.rows, unit.start);
  kernels.prepare(call, unit, memory);
  const auto after = [&](int i) {
    if (i + 1 < job.splits) return AttentionNext{&unit, job.split + i + 1};
    return following != nullptr ? AttentionNext{&following->unit, following->split} : AttentionNext{nullptr, 0};
  };
  kernels.attend(call, unit, job.split, after(0), memory, total);
  for (int i = 1; i < job.splits; ++i) {
    kernels.attend(call, unit, job.split + i, after(i), memory, next);
    kernels.merge(queries, head_dim, next, total);
  }
  kernels.finish(call, unit, total);
}

void AttentionScratch::State::run_apart(const AttentionCall& call, const AttentionKernels& kernels, const Task& task,
                                        char* memory) {
  const Job& job = jobs[task.job];
  const AttentionUnit& unit = job.unit;
  const int head_dim = call.geometry.head_dim, queries = job.queries();
  const size_t floats = partial_floats(queries, head_dim);
  const auto partial = [&](int i) {
    return partial_at(partial_memory.data() + job.partials + floats * i, queries);
  };
  if (job.writes) {  // the rows that lie in these splits, which no other task reads
    const int begin = std::max(unit.start, task.split * kSplit);
    const int end = std::min(unit.start + unit.rows, task.end * kSplit);
    if (begin < end)
      kernels.write(call, unit.blocks, unit.kv_head, unit.row + begin - unit.start, end - begin, begin);
  }
  kernels.prepare(call, unit, memory);
  for (int split = task.split; split < task.end; ++split)
    kernels.attend(call, unit, split, {split + 1 < task.end ? &unit : nullptr, split + 1}, memory,
                   partial(split - job.split));
  if (left.data()[job.apart].fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  for (int i = 1; i < job.splits; ++i) kernels.merge(queries, head_dim, partial(i), partial(0));
  kernels.finish(call, unit, partial(0));
}

void AttentionScratch::State::run(const AttentionCall& call, const AttentionKernels& kernels, ThreadPool& pool) {
  const int head_dim = call.geometry.head_dim;
  per_thread = aligned(kernels.workspace_bytes) + 2 * partial_floats(kernels.max_queries, head_dim) * sizeof(float);
  char* memory = workspaces.at_least(per_thread * pool.size());
  partial_memory.at_least(partials);
  left.at_least(apart);
  for (const Job& job : jobs)
    if (job.apart != kNone) new (left.data() + job.apart) std::atomic<int>(job.tasks);
  pool.run(static_cast<int>(writes.size()), [&](int task, int) {
    const Write& w = writes[task];
    const AttentionSequence& s = call.sequences[w.sequence];
    for (int kv_head = 0; kv_head < call.geometry.num_kv_heads; ++kv_head)
      kernels.write(call, s.blocks, kv_head, s.row + w.begin, w.end - w.begin, s.start + w.begin);
  });
  pool.run(static_cast<int>(tasks.size()), [&](int task, int thread) {
    const Task& t = tasks[task];
    char* mine = memory + per_thread * thread;
    if (t.jobs == 0) run_apart(call, kernels, t, mine);
    for (int i = t.job; i < t.job + t.jobs; ++i)
      run_job(call, kernels, jobs[i], i + 1 < t.job + t.jobs ? &jobs[i + 1] : nullptr, mine);
  });
}

AttentionScratch::AttentionScratch() : state_(std::make_unique<State>()) {}
AttentionScratch::~AttentionScratch() = default;

size_t kv_block_elements(const KvGeometry& g) { return KvLayout(g).block; }

void attention(Isa isa, const AttentionCall& call, AttentionScratch& scratch, ThreadPool& pool) {
  check(call);
  const AttentionKernels& kernels = kernels_of(isa);
  scratch.state().plan(call, kernels, pool.size());
  scratch.state().run(call, kernels, pool);
}

}  // namespace tenfold
