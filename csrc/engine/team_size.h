// How many members a team should have: those that processors are free for.
//
// Members meet at a barrier hundreds of times in a forward, so that one that has to wait for a
// processor holds up all others. On a busy machine fewer members are therefore quicker. What tells
// is stolen time: the time for which a member could have run and did not. Bits do not depend on
// how many members there are, so their number may change from run to run.
#pragma once

namespace maglio {

class TeamSize {
 public:
  explicit TeamSize(int most) : most_(most), now_(most) {}

  int now() const { return now_; }

  // Takes note of a run of now() members: how long it was, and how much time was stolen from all
  // members together, in seconds.
  void note(double seconds, double stolen);

 private:
  void change(int size, double rest);

  const int most_;
  int now_;
  double seconds_ = 0;  // of the runs that count, at this size
  double stolen_ = 0;
  double rest_ = 0;  // until one more member is tried
};

}  // namespace maglio
