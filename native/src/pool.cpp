#include "pool.hpp"

#ifdef TENFOLD_X86
#include <immintrin.h>
#endif

namespace tenfold {
namespace {

// About 50 microseconds of spinning covers the gap between two ops and between two steps; longer idling parks.
constexpr int kSpins = 4000;

inline void pause_cpu() {
#ifdef TENFOLD_X86
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

ThreadPool::ThreadPool(int threads) : size_(threads < 1 ? 1 : threads) {
  for (int i = 1; i < size_; ++i) threads_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_.store(true);
    epoch_.fetch_add(1);
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void ThreadPool::drain(int thread) {
  for (int task = next_.fetch_add(1, std::memory_order_relaxed); task < tasks_;
       task = next_.fetch_add(1, std::memory_order_relaxed))
    call_(context_, task, thread);
}

void ThreadPool::dispatch(int tasks, Call call, const void* context) {
  tasks_ = tasks;
  call_ = call;
  context_ = context;
  next_.store(0, std::memory_order_relaxed);
  busy_.store(size_ - 1, std::memory_order_relaxed);
  bool anyone_parked;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    epoch_.fetch_add(1, std::memory_order_release);
    anyone_parked = parked_ > 0;
  }
  if (anyone_parked) wake_.notify_all();
  drain(0);
  // Workers hold the job's fields until they check out, so the next job may only be posted after that.
  int spins = 0;
  while (busy_.load(std::memory_order_acquire) != 0) {
    if (++spins < kSpins) pause_cpu();
    else std::this_thread::yield();
  }
}

void ThreadPool::work(int thread) {
  uint64_t seen = 0;
  for (;;) {
    int spins = 0;
    while (epoch_.load(std::memory_order_acquire) == seen && ++spins < kSpins) pause_cpu();
    if (epoch_.load(std::memory_order_acquire) == seen) {
      std::unique_lock<std::mutex> lock(mutex_);
      ++parked_;
      wake_.wait(lock, [&] { return epoch_.load(std::memory_order_acquire) != seen; });
      --parked_;
    }
    ++seen;
    if (stop_.load()) return;
    drain(thread);
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace tenfold
