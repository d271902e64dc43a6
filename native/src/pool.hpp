// The resident thread pool. Threads split outputs, never sums, so results do not depend on how many there are.
#pragma once
#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace tenfold {

class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // the caller of run() counts as one of them
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  // Calls body(task, thread) for every task in [0, tasks), tasks handed out one at a time in increasing order,
  // thread in [0, size()). Returns when all are done. Bodies must not throw. One caller at a time.
  template <class Body>
  void run(int tasks, const Body& body) {
    if (tasks <= 0) return;
    if (size_ == 1 || tasks == 1) {
      for (int task = 0; task < tasks; ++task) body(task, 0);
      return;
    }
    for (int first = 0; first < tasks; first += kMaxTasks) {
      auto shifted = [&](int task, int thread) { body(first + task, thread); };
      dispatch(std::min(tasks - first, kMaxTasks), [](const void* context, int task, int thread) {
        (*static_cast<const decltype(shifted)*>(context))(task, thread);
      }, &shifted);
    }
  }

  // The same of [0, count) cut into shares: body(begin, end, thread). Each is a share of what is left, so the first are
  // large, which costs few claims and lets memory be read in long stretches, and the last are single items, so that
  // threads end together however unequal their cores are (guided self-scheduling: Polychronopoulos and Kuck, 1987).
  template <class Body>
  void run_shares(int count, const Body& body) {
    int ends[kMaxShares], shares = 0;
    for (int end = 0; end < count; ++shares) {
      end = shares == kMaxShares - 1 ? count : end + std::max(1, (count - end) / (2 * size_));
      ends[shares] = end;
    }
    run(shares, [&](int share, int thread) { body(share == 0 ? 0 : ends[share - 1], ends[share], thread); });
  }

 private:
  static constexpr int kMaxShares = 256;
  using Call = void (*)(const void*, int, int);
  static constexpr int kMaxTasks = (1 << 20) - 4096;  // leaves room for every thread to overshoot once
  void dispatch(int tasks, Call call, const void* context);
  void work(int thread);
  void drain(int thread, uint64_t first);

  int size_;
  std::vector<std::thread> threads_;
  // The job's number (24 bits), its tasks (20) and the next task to hand out (20), in one word: whoever claims a task
  // from it knows the job is still open, so the fields below hold still. A worker that comes late finds nothing to
  // claim and is not waited for, which matters when other programs have taken its CPU.
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<int> done_{0};
  Call call_ = nullptr;
  const void* context_ = nullptr;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int> parked_{0};
  std::atomic<bool> stop_{false};
};

}  // namespace tenfold
