// The resident thread pool. Threads split outputs, never sums, so results do not depend on how many there are.
#pragma once
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
    dispatch(tasks, [](const void* context, int task, int thread) {
      (*static_cast<const Body*>(context))(task, thread);
    }, &body);
  }

 private:
  using Call = void (*)(const void*, int, int);
  void dispatch(int tasks, Call call, const void* context);
  void work(int thread);
  void drain(int thread);

  int size_;
  std::vector<std::thread> threads_;
  std::atomic<uint64_t> epoch_{0};
  alignas(64) std::atomic<int> next_{0};
  alignas(64) std::atomic<int> busy_{0};
  std::atomic<bool> stop_{false};
  int tasks_ = 0;
  Call call_ = nullptr;
  const void* context_ = nullptr;
  std::mutex mutex_;
  std::condition_variable wake_;
  int parked_ = 0;
};

}  // namespace tenfold
