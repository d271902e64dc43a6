// exp, tanh and logistic over 16 lanes, about 1 to 2 units in the last place. Include a lanes_*.hpp first.
//
// The coefficients are our own minimax fits (relative error below 5e-9 before rounding).
#pragma once

namespace tenfold {
namespace {

// 2^x for x below 128.
TENFOLD_INLINE Lanes::F vector_exp2(Lanes::F x) {
  x = Lanes::max(Lanes::set(-300.0f), x);  // so that rounding is exact; a NaN stays one
  const Lanes::F n = Lanes::round(x), f = Lanes::sub(x, n);
  Lanes::F p = Lanes::set(0.00015353360504377633f);
  p = Lanes::fma(p, f, Lanes::set(0.0013398875016719103f));
  p = Lanes::fma(p, f, Lanes::set(0.00961843691766262f));
  p = Lanes::fma(p, f, Lanes::set(0.055503323674201965f));
  p = Lanes::fma(p, f, Lanes::set(0.24022647738456726f));
  p = Lanes::fma(p, f, Lanes::set(0.6931471824645996f));
  p = Lanes::fma(p, f, Lanes::set(1.0f));
  return Lanes::scale2(p, n);
}

// e^x; zero below about -104, infinity above 88.73.
TENFOLD_INLINE Lanes::F vector_exp(Lanes::F x) {
  x = Lanes::less(x, Lanes::set(-200.0f), Lanes::set(-200.0f), x);  // keeps n small and infinities out of n * ln 2
  x = Lanes::less(Lanes::set(200.0f), x, Lanes::set(200.0f), x);
  const Lanes::F n = Lanes::round(Lanes::mul(x, Lanes::set(1.4426950216293335f)));
  // ln 2 in two parts; the first has few bits, so n times it is exact.
  Lanes::F r = Lanes::fma(n, Lanes::set(-0.693359375f), x);
  r = Lanes::fma(n, Lanes::set(0.00021219444f), r);
  Lanes::F p = Lanes::set(0.001381455804221332f);
  p = Lanes::fma(p, r, Lanes::set(0.008368736132979393f));
  p = Lanes::fma(p, r, Lanes::set(0.04166838899254799f));
  p = Lanes::fma(p, r, Lanes::set(0.1666652113199234f));
  p = Lanes::fma(p, r, Lanes::set(0.4999999403953552f));
  p = Lanes::fma(p, Lanes::mul(r, r), Lanes::add(r, Lanes::set(1.0f)));
  return Lanes::scale2(p, n);
}

// x / (1 + e^-y).
TENFOLD_INLINE Lanes::F times_logistic(Lanes::F x, Lanes::F y) {
  const Lanes::F minus = Lanes::sub(Lanes::set(0.0f), y);
  return Lanes::div(x, Lanes::add(Lanes::set(1.0f), vector_exp(minus)));
}

TENFOLD_INLINE Lanes::F vector_tanh(Lanes::F x) {
  const Lanes::F size = Lanes::abs(x), z = Lanes::mul(x, x);
  Lanes::F p = Lanes::set(-0.0057026976719498634f);
  p = Lanes::fma(p, z, Lanes::set(0.020637119188904762f));
  p = Lanes::fma(p, z, Lanes::set(-0.05373913794755936f));
  p = Lanes::fma(p, z, Lanes::set(0.1333143562078476f));
  p = Lanes::fma(p, z, Lanes::set(-0.3333328068256378f));
  const Lanes::F small = Lanes::fma(Lanes::mul(p, z), size, size);
  const Lanes::F e = vector_exp(Lanes::add(size, size));
  const Lanes::F large = Lanes::sub(Lanes::set(1.0f), Lanes::div(Lanes::set(2.0f), Lanes::add(e, Lanes::set(1.0f))));
  return Lanes::copy_sign(Lanes::less(size, Lanes::set(0.625f), small, large), x);
}

}  // namespace
}  // namespace tenfold
