// Arrays on cache-line boundaries; big ones ask for huge pages and start as zero pages that cost nothing until touched.
//
// AddressSanitizer sees neither mapped memory nor what tile instructions and masked vectors do. In builds for it arrays
// end where a page begins that nothing may touch.
#pragma once
#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <utility>

namespace tenfold {

template <class T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(size_t count) : bytes_(count * sizeof(T)) {
    if (bytes_ == 0) return;
    void* p = mmap(nullptr, mapped(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (bytes_ >= (size_t{4} << 20)) madvise(p, bytes_, MADV_HUGEPAGE);
#endif
    if (kGuard > 0) mprotect(static_cast<char*>(p) + mapped() - kGuard, kGuard, PROT_NONE);
    data_ = reinterpret_cast<T*>(static_cast<char*>(p) + lead());
  }
  ~AlignedArray() { if (data_ != nullptr) munmap(reinterpret_cast<char*>(data_) - lead(), mapped()); }
  AlignedArray(AlignedArray&& other) noexcept { swap(other); }
  AlignedArray& operator=(AlignedArray&& other) noexcept { swap(other); return *this; }
  AlignedArray(const AlignedArray&) = delete;
  AlignedArray& operator=(const AlignedArray&) = delete;

  T* get() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
#ifdef __SANITIZE_ADDRESS__
  static constexpr size_t kGuard = 4096;
#else
  static constexpr size_t kGuard = 0;
#endif
  size_t mapped() const {
    if constexpr (kGuard > 0) return (bytes_ + kGuard - 1) / kGuard * kGuard + kGuard;
    else return bytes_;
  }
  size_t lead() const { return kGuard > 0 ? mapped() - kGuard - (bytes_ + 63) / 64 * 64 : 0; }  // bytes before data

  void swap(AlignedArray& other) { std::swap(data_, other.data_); std::swap(bytes_, other.bytes_); }
  T* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace tenfold
