#include "math/elementary.h"

#include <cmath>
#include <limits>

namespace maglio {
namespace {

constexpr double kLargestAngle = 1 << 30;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
// Half of pi in three parts. The first two have 33 bits, so that their multiples are exact.
constexpr double kHalfPi[] = {0x1.921fb544p+0, 0x1.0b4611a6p-34, 0x1.3198a2e037073p-69};
constexpr double kLn2 = 0x1.62e42fefa39efp-1;
constexpr double kSqrtHalf = 0x1.6a09e667f3bcdp-1;

// 1 - x^2 / (n (n - 1)) * (1 - x^2 / ((n - 2) (n - 3)) * ...) from `last` down to `first`.
double taylor(double square, int first, int last) {
  double sum = 1.0;
  for (int n = last; n >= first; n -= 2) {
    sum = 1.0 - square / static_cast<double>(n * (n - 1)) * sum;
  }
  return sum;
}

}  // namespace

CosSin cos_sin(double angle) {
  if (!(std::fabs(angle) < kLargestAngle)) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    return {nan, nan};
  }
  const double quarters = std::nearbyint(angle * kTwoOverPi);
  double rest = angle;
  for (double part : kHalfPi) rest -= quarters * part;
  const double square = rest * rest;
  const double cosine = taylor(square, 2, 18), sine = rest * taylor(square, 3, 19);
  switch (static_cast<int>(quarters - 4.0 * std::floor(quarters / 4.0))) {
    case 0:
      return {cosine, sine};
    case 1:
      return {-sine, cosine};
    case 2:
      return {-cosine, -sine};
    default:
      return {sine, -cosine};
  }
}

double natural_log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < kSqrtHalf) {
    mantissa *= 2.0;
    --exponent;
  }
  // ln m = 2 artanh((m - 1) / (m + 1)).
  const double z = (mantissa - 1.0) / (mantissa + 1.0);
  double sum = 0.0;
  for (int n = 23; n > 0; n -= 2) sum = 1.0 / n + z * z * sum;
  return exponent * kLn2 + 2.0 * z * sum;
}

double exponential(double x) {
  if (x != x) return x;
  if (x > 700) return std::numeric_limits<double>::infinity();
  if (x < -700) return 0;
  // x = n ln 2 + r with |r| below 0.35, ln 2 in two parts of which n times the first is exact.
  const double n = std::nearbyint(x * 0x1.71547652b82fep+0);
  const double r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
  double sum = 1;
  for (int k = 14; k > 0; --k) sum = 1 + r * sum / k;
  return std::ldexp(sum, static_cast<int>(n));
}

}  // namespace maglio
