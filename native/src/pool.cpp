#include "pool.hpp"

#ifdef TENFOLD_X86
#include <immintrin.h>
#endif

namespace tenfold {
namespace {

// About 50 microseconds of spinning covers the gap between two ops and between two steps; longer idling parks.
constexpr int kSpins = 4000;

constexpr uint64_t kFieldMask = (1 << 20) - 1;
constexpr uint64_t kNumberMask = (1 << 24) - 1;
inline uint64_t number_of(uint64_t ticket) { return ticket >> 40; }
inline uint64_t tasks_of(uint64_t ticket) { return (ticket >> 20) & kFieldMask; }
inline uint64_t next_of(uint64_t ticket) { return ticket & kFieldMask; }

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
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

// Claims and runs tasks until the job that `ticket` belongs to has none left. A thread overshoots the last task once a
// job, so the field cannot overflow into its neighbour.
void ThreadPool::drain(int thread, uint64_t ticket) {
  const uint64_t number = number_of(ticket);
  for (;;) {
    ticket = ticket_.fetch_add(1, std::memory_order_acq_rel);
    if (next_of(ticket) >= tasks_of(ticket)) return;
    call_(context_, static_cast<int>(next_of(ticket)), thread);
    done_.fetch_add(1, std::memory_order_acq_rel);
    if (number_of(ticket_.load(std::memory_order_acquire)) != number) return;
  }
}

void ThreadPool::dispatch(int tasks, Call call, const void* context) {
  call_ = call;
  context_ = context;
  done_.store(0, std::memory_order_relaxed);
  const uint64_t number = (number_of(ticket_.load(std::memory_order_relaxed)) + 1) & kNumberMask;
  const uint64_t ticket = (number << 40) | (static_cast<uint64_t>(tasks) << 20);
  ticket_.store(ticket, std::memory_order_seq_cst);
  if (parked_.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard<std::mutex> lock(mutex_);
    wake_.notify_all();
  }
  drain(0, ticket);
  int spins = 0;
  while (done_.load(std::memory_order_acquire) != tasks) {
    if (++spins < kSpins) pause_cpu();
    else std::this_thread::yield();
  }
}

void ThreadPool::work(int thread) {
  uint64_t seen = 0;  // the job this thread found empty last
  auto is_new = [&] { return number_of(ticket_.load(std::memory_order_seq_cst)) != seen; };
  for (;;) {
    int spins = 0;
    while (!is_new() && !stop_.load(std::memory_order_relaxed) && ++spins < kSpins) pause_cpu();
    if (!is_new()) {
      std::unique_lock<std::mutex> lock(mutex_);
      parked_.fetch_add(1, std::memory_order_seq_cst);
      wake_.wait(lock, [&] { return is_new() || stop_.load(); });
      parked_.fetch_sub(1, std::memory_order_seq_cst);
    }
    if (stop_.load()) return;
    const uint64_t ticket = ticket_.load(std::memory_order_acquire);
    seen = number_of(ticket);
    if (next_of(ticket) < tasks_of(ticket)) drain(thread, ticket);
  }
}

}  // namespace tenfold
