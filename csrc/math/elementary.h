// Elementary functions whose bits do not depend on the C library.
#pragma once

namespace maglio {

struct CosSin {
  double cosine, sine;
};

// Within 1e-15 for angles up to a million, worse beyond; NaN where |angle| >= 2^30.
CosSin cos_sin(double angle);

// Of a finite normal number above zero, within 2e-15 of the result or of 1.
double natural_log(double x);

// e to the power of x, within 1e-15 of the result; 0 below -700, infinite above 700.
double exponential(double x);

}  // namespace maglio
