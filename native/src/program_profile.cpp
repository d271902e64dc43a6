// Running a step with a clock on every stage.
#include <algorithm>
#include <numeric>

#include "program_run.hpp"

namespace tenfold {
namespace {

constexpr int kLinearKind = 1;

}  // namespace

void NativeProgram::profile(bool on) {
  times_ = StepTimes{};
  times_.on = on;
  if (!on) return;
  for (const Stage& stage : stages_) {
    StageTime time;
    time.kind = static_cast<int>(stage.index());
    if (const auto* rows = std::get_if<RowStage>(&stage)) {
      for (size_t i = 0; i < rows->ops.size(); ++i)
        time.parts.push_back({rows->numbers[i], std::holds_alternative<QuantizeOp>(rows->ops[i]), 0});
    } else if (const auto* gated = std::get_if<GatedLinearStage>(&stage)) {
      time.kind = kLinearKind;
      time.parts = {{gated->linear.number, false, 0}, {gated->number, false, 0}};
    } else {
      const int number = std::holds_alternative<LinearStage>(stage) ? std::get<LinearStage>(stage).number
                         : std::holds_alternative<AttentionStage>(stage) ? std::get<AttentionStage>(stage).number
                                                                         : std::get<LogitsStage>(stage).number;
      time.parts.push_back({number, false, 0});
    }
    times_.stages.push_back(std::move(time));
  }
}

void NativeProgram::run_profiled(Run& run) {
  const auto begin = Clock::now();
  prepare(run);
  times_.prepare += seconds_since(begin);
  const double sampled_before = seconds_[4];
  for (size_t i = 0; i < stages_.size(); ++i) {
    const auto start = Clock::now();
    const double sampling = seconds_[4];
    std::vector<double> weights{1.0};
    if (const auto* rows = std::get_if<RowStage>(&stages_[i])) weights = run_rows_by_op(*rows, run);
    else if (const auto* gated = std::get_if<GatedLinearStage>(&stages_[i])) weights = run_gated_linear(*gated, run);
    else run_stage(stages_[i], run);
    const double seconds = seconds_since(start) - (seconds_[4] - sampling);
    StageTime& time = times_.stages[i];
    time.seconds += seconds;
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (size_t part = 0; part < weights.size(); ++part) time.parts[part].seconds += seconds * weights[part] / total;
  }
  times_.sampling += seconds_[4] - sampled_before;
  times_.seconds += seconds_since(begin);
  ++times_.steps;
}

// As run_rows, but op after op over a task's rows, so that each op can be timed; rows do not depend on each other.
// Returns what each op took on all threads together, in ticks of the clock; never 0.
std::vector<double> NativeProgram::run_rows_by_op(const RowStage& stage, Run& run) {
  Timer timer(seconds_[0]);
  const int rows = run.input.num_tokens, chunk = rows_per_task(stage, rows);
  const size_t ops = stage.ops.size();
  std::vector<double> spent(pool_.size() * ops, 1.0);
  pool_.run((rows + chunk - 1) / chunk, [&](int task, int thread) {
    auto start = Clock::now();
    for (size_t i = 0; i < ops; ++i) {
      for (int r = task * chunk; r < std::min(rows, (task + 1) * chunk); ++r) run_row_op(stage.ops[i], r, run);
      const auto end = Clock::now();
      spent[thread * ops + i] += static_cast<double>((end - start).count());
      start = end;
    }
  });
  for (int thread = 1; thread < pool_.size(); ++thread)
    for (size_t i = 0; i < ops; ++i) spent[i] += spent[thread * ops + i];
  spent.resize(ops);
  return spent;
}

}  // namespace tenfold
