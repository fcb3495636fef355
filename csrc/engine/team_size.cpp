#include "engine/team_size.h"

namespace maglio {
namespace {

// Older runs count half. Long enough to see several time slices of other processes.
constexpr double kMemory = 0.064;
// A new size begins as if it had been undisturbed for so long: shorter disturbances change nothing.
constexpr double kTrust = 0.010;
// A try may cost this part of the time between tries.
constexpr double kPriceOfTries = 1.0 / 32;

}  // namespace

void TeamSize::note(double seconds, double stolen) {
  seconds_ += seconds;
  stolen_ += stolen;
  rest_ -= seconds;
  // With one member fewer, a run that is bound by arithmetic takes a `now - 1`th longer. One that
  // is bound by memory takes no longer. Between them, half of that.
  if (now_ > 1 && 2 * now_ * stolen_ > seconds_) {
    return change(now_ - 1, stolen_ / kPriceOfTries);
  }
  if (now_ < most_ && rest_ <= 0) return change(now_ + 1, kTrust);
  if (seconds_ > kMemory) {
    seconds_ /= 2;
    stolen_ /= 2;
  }
}

void TeamSize::change(int size, double rest) {
  now_ = size;
  rest_ = rest;
  seconds_ = kTrust;
  stolen_ = 0;
}

}  // namespace maglio
