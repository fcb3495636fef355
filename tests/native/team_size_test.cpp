// How many members a team has on a machine that others use too, by a simulated clock.
#include "engine/team_size.h"

#include <cstdio>

#include "check.h"

namespace {

using maglio::TeamSize;

constexpr double kWork = 0.006;  // seconds of a run with one member

// A machine on which members beyond the free processors lose a time slice in every run.
struct Machine {
  int free;
  double clock = 0;
  double lost = 0;

  void run(TeamSize& team) {
    const double undisturbed = kWork / team.now();
    const double stolen = team.now() > free ? 0.003 * (team.now() - free) : 0;
    team.note(undisturbed + stolen, stolen);
    clock += undisturbed + stolen;
    lost += stolen;
  }

  void run_for(TeamSize& team, double seconds) {
    for (const double end = clock + seconds; clock < end;) run(team);
  }
};

void an_undisturbed_team_stays_whole() {
  TeamSize team(8);
  Machine machine{8};
  for (int i = 0; i < 1000; ++i) {
    machine.run(team);
    CHECK(team.now() == 8);
  }
}

void a_short_disturbance_changes_nothing() {
  TeamSize team(2);
  for (int i = 0; i < 1000; ++i) {
    team.note(0.003, i % 20 == 19 ? 0.001 : 0);
    CHECK(team.now() == 2);
  }
}

void a_team_shrinks_to_the_free_processors() {
  for (int free = 1; free < 8; ++free) {
    TeamSize team(8);
    Machine machine{free};
    machine.run_for(team, 0.5);
    machine.lost = 0;
    const double began = machine.clock;
    machine.run_for(team, 10);
    CHECK(machine.lost < 0.05 * (machine.clock - began));
    CHECK(team.now() == free || team.now() == free + 1);  // the latter while it is tried
  }
}

void a_team_grows_again_when_processors_come_free() {
  TeamSize team(4);
  Machine machine{1};
  machine.run_for(team, 5);
  machine.free = 4;
  machine.run_for(team, 1);
  CHECK(team.now() == 4);
}

void one_member_is_left_wherever_nothing_is_free() {
  TeamSize team(2);
  for (int i = 0; i < 100; ++i) {
    team.note(0.010, 0.008);
    CHECK(team.now() == 1 || team.now() == 2);
  }
  TeamSize alone(1);
  alone.note(0.010, 0.010);
  CHECK(alone.now() == 1);
}

}  // namespace

int main() {
  an_undisturbed_team_stays_whole();
  a_short_disturbance_changes_nothing();
  a_team_shrinks_to_the_free_processors();
  a_team_grows_again_when_processors_come_free();
  one_member_is_left_wherever_nothing_is_free();
  std::puts("ok");
}
