// Handing a vector's memory to Python as a numpy array, without a copy.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <initializer_list>
#include <utility>
#include <vector>

namespace tenfold {

template <class T>
nanobind::ndarray<nanobind::numpy, T> to_numpy(std::vector<T> values, std::initializer_list<size_t> shape) {
  auto* kept = new std::vector<T>(std::move(values));
  kept->reserve(1);  // an address even when there is nothing in it
  nanobind::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nanobind::ndarray<nanobind::numpy, T>(kept->data(), shape, owner);
}

}  // namespace tenfold
