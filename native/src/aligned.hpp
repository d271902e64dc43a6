// Arrays on cache-line boundaries; big ones ask for huge pages and start as zero pages that cost nothing until touched.
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
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    if (bytes_ >= (size_t{4} << 20)) madvise(p, bytes_, MADV_HUGEPAGE);
#endif
    data_ = static_cast<T*>(p);
  }
  ~AlignedArray() { if (data_ != nullptr) munmap(data_, bytes_); }
  AlignedArray(AlignedArray&& other) noexcept { swap(other); }
  AlignedArray& operator=(AlignedArray&& other) noexcept { swap(other); return *this; }
  AlignedArray(const AlignedArray&) = delete;
  AlignedArray& operator=(const AlignedArray&) = delete;

  T* get() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void swap(AlignedArray& other) { std::swap(data_, other.data_); std::swap(bytes_, other.bytes_); }
  T* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace tenfold
