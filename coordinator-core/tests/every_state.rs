//! Every pair of events in every state of a scope.

mod scripted;

use coordinator_core::Mode::{self, Exclusive, Shared};
use scripted::rig::{FOREVER, Rig, options, scope};
use scripted::world::World;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    Trying,
    InLine,
    HeldOpen,
    HeldExpired,
    Probing,
    Closed,
    Freeing,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Event {
    DropWaiter(usize),
    DropUnreceived,
    DropLease,
    ReleaseDropped,
    Release,
    Arrive(Mode, bool),
    Agree,
    Refuse,
    Fail,
    Panic,
    LoseSession,
    Revoke,
    EndUpkeep,
    ShutDown,
}

use Event::{
    Agree, Arrive, DropLease, DropUnreceived, DropWaiter, EndUpkeep, Fail, LoseSession, Panic, Refuse, Release,
    ReleaseDropped, Revoke, ShutDown,
};

const STATES: [State; 7] =
    [State::Trying, State::InLine, State::HeldOpen, State::HeldExpired, State::Probing, State::Closed, State::Freeing];

const EVENTS: [Event; 18] = [
    DropWaiter(0),
    DropWaiter(1),
    DropUnreceived,
    DropLease,
    ReleaseDropped,
    Release,
    Arrive(Exclusive, false),
    Arrive(Exclusive, true),
    Arrive(Shared, false),
    Arrive(Shared, true),
    Agree,
    Refuse,
    Fail,
    Panic,
    LoseSession,
    Revoke,
    EndUpkeep,
    ShutDown,
];

/// The modes of who holds the scope, of the first waiter and of the second.
type Modes = [Mode; 3];

/// The scope in this state, where the modes allow it.
fn reach(state: State, [holder, head, other]: Modes, outlast_outages: bool) -> Option<World> {
    let window = if matches!(state, State::HeldOpen | State::Freeing) { FOREVER } else { Duration::ZERO };
    let mut options = options(window, FOREVER);
    options.outlast_outages = outlast_outages;
    let mut world = World::new(Rig::with(options));
    if !matches!(state, State::Trying | State::InLine) {
        let lease = world.rig.holds(holder);
        world.leases.push(lease);
    }
    let queue = |world: &mut World| [head, other].map(|mode| world.arrive(scope("s"), mode, false, true));
    match state {
        State::InLine => {
            queue(&mut world);
            world.rig.take("try_lock").refuse();
        }
        // A shared caller of a shared lock would ask whether somebody waits.
        State::HeldExpired if holder == Shared && head == Shared => return None,
        State::Trying | State::HeldOpen | State::HeldExpired => drop(queue(&mut world)),
        // Where it is asked with nobody in, and where with somebody in.
        State::Probing if holder != head => return None,
        State::Probing => {
            queue(&mut world);
            if holder == Exclusive {
                world.leases.clear();
            }
        }
        State::Closed if holder == Exclusive || head == Exclusive => return None,
        State::Closed => {
            queue(&mut world);
            world.rig.take("contended").refuse();
        }
        State::Freeing => {
            world.leases.clear();
            queue(&mut world);
        }
    }
    let parked = match state {
        State::Trying => &["try_lock"][..],
        State::InLine => &["lock"],
        State::HeldOpen | State::HeldExpired | State::Closed => &[],
        State::Probing => &["contended"],
        State::Freeing => &["unlock"],
    };
    assert_eq!(world.rig.parked(), parked);
    Some(world)
}

fn cannot_happen(world: &World, event: Event) -> bool {
    match event {
        DropWaiter(at) => at >= world.waiting.len(),
        DropLease | Release | ReleaseDropped => world.leases.is_empty(),
        Agree | Refuse | Fail | Panic => world.rig.parked().is_empty(),
        _ => false,
    }
}

/// False if there was nothing to happen: a case with fewer events.
fn happen(world: &mut World, event: Event) -> bool {
    match event {
        _ if cannot_happen(world, event) => return false,
        DropWaiter(at) => drop(world.waiting.remove(at)),
        DropUnreceived => {
            if !world.waiting.iter().any(scripted::world::Waiting::is_told) {
                world.leases.clear();
                if let Some(parked) = world.take_parked(0) {
                    parked.agree();
                }
                world.rig.settle();
            }
            if let Some(at) = world.waiting.iter().position(scripted::world::Waiting::is_told) {
                drop(world.waiting.remove(at));
            }
        }
        DropLease => world.leases.truncate(world.leases.len().saturating_sub(1)),
        Release | ReleaseDropped => world.release(0, event == Release),
        Arrive(mode, is_try) => world.arrive(scope("s"), mode, is_try, true),
        Agree | Refuse | Fail | Panic => {
            let Some(parked) = world.take_parked(0) else { return false };
            world.may_fail |= matches!(event, Fail | Panic) || parked.asked.name() == "unlock" && event == Refuse;
            match event {
                Agree => parked.agree(),
                Refuse => parked.refuse(),
                Fail => parked.fail_unavailable(),
                _ => parked.panic(),
            }
        }
        LoseSession => world.lose_last(),
        Revoke => world.revoke(scope("s")),
        EndUpkeep => {
            world.may_fail = true;
            world.rig.end_upkeep();
            world.lose_all(); // they lived on that runtime
        }
        ShutDown => world.shut_down(FOREVER),
    }
    true
}

struct Case<'a>(State, Modes, &'a [(Event, bool)], bool);

impl fmt::Display for Case<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(state, [holder, head, other], events, outlast) = self;
        write!(f, "{state:?}, held {holder}, {head} and {other} wait, {events:?}, outlast_outages {outlast}")
    }
}

impl Case<'_> {
    fn run(&self) {
        let Self(state, modes, events, outlast) = self;
        let Some(mut world) = reach(*state, *modes, *outlast) else { return };
        for (event, all_look) in *events {
            if !happen(&mut world, *event) {
                return;
            }
            if *all_look {
                world.rig.settle();
                world.receive();
                world.check_nobody_is_forgotten();
            }
            world.check_exclusion();
        }
        world.drain();
    }
}

/// These events in all states and for all modes.
fn check(outlast_outages: &[bool], events: &[(Event, bool)]) {
    let modes = [Exclusive, Shared];
    for state in STATES {
        for (holder, head, other) in modes.into_iter().flat_map(|a| modes.map(|b| (a, b))).flat_map(|(a, b)| {
            modes.map(|c| (a, b, c)) // all eight
        }) {
            for outlast in outlast_outages {
                let case = Case(state, [holder, head, other], events, *outlast);
                if let Err(failed) = catch_unwind(AssertUnwindSafe(|| case.run())) {
                    eprintln!("in the case: {case}");
                    resume_unwind(failed);
                }
            }
        }
    }
}

#[test]
fn in_every_state_after_every_event_all_are_served_or_told_and_nothing_is_left() {
    for event in EVENTS {
        check(&[false, true], &[(event, true)]);
        check(&[false, true], &[(event, false)]);
    }
}

#[test]
fn in_every_state_after_every_two_events_all_are_served_or_told_and_nothing_is_left() {
    for first in EVENTS {
        for second in EVENTS {
            check(&[false], &[(first, true), (second, true)]);
        }
    }
}

#[test]
fn in_every_state_two_events_at_once_leave_nothing() {
    for first in EVENTS {
        for second in EVENTS {
            check(&[false], &[(first, false), (second, false)]);
        }
    }
}
