//! Random walks over callers, drops, answers and losses.

mod scripted;

use coordinator_core::{CohortOptions, Mode, Session};
use scripted::rig::{FOREVER, Rig, options, scope};
use scripted::world::World;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

const WALKS: u64 = 3_000;
const STEPS: usize = 80;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % bound as u64).expect("below a usize")
    }

    fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }
}

fn random_options(random: &mut Random) -> CohortOptions {
    let mut spans = || [Duration::ZERO, Duration::from_millis(10), FOREVER][random.below(3)];
    let mut options = options(spans(), spans());
    options.outlast_outages = random.one_in(2);
    options
}

fn walk(seed: u64) {
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let scopes = [scope("a"), scope("b"), scope("c")];
    let mut world = World::new(Rig::with(random_options(&mut random)));
    let sessions_are_lost = random.one_in(2);
    for _ in 0..STEPS {
        match random.below(13) {
            0..=2 => {
                let mode = if random.one_in(2) { Mode::Exclusive } else { Mode::Shared };
                // Most of them on one scope, so that they meet.
                let scope = scopes[random.below(5).saturating_sub(2)];
                world.arrive(scope, mode, random.one_in(3), !random.one_in(5));
            }
            3 | 4 if !world.waiting.is_empty() => {
                let at = random.below(world.waiting.len());
                world.poll(at);
            }
            5 if !world.waiting.is_empty() => {
                let at = random.below(world.waiting.len());
                drop(world.waiting.remove(at));
            }
            6 if !world.leases.is_empty() => {
                let at = random.below(world.leases.len());
                drop(world.leases.remove(at));
            }
            7 if !world.leases.is_empty() => {
                let at = random.below(world.leases.len());
                world.release(at, random.one_in(2));
            }
            8 if sessions_are_lost && random.one_in(3) => {
                let sessions = world.rig.script.script().sessions.clone();
                if !sessions.is_empty() {
                    world.lose(&sessions[random.below(sessions.len())]);
                }
            }
            10 if sessions_are_lost && random.one_in(3) => world.revoke(scopes[random.below(3)]),
            9 if random.one_in(4) => {
                world.receive();
                world.check_nobody_is_forgotten();
            }
            _ => answer(&mut world, &mut random),
        }
        world.check_exclusion();
    }
    world.drain();
}

fn answer(world: &mut World, random: &mut Random) {
    let parked = world.rig.parked().len();
    let Some(parked) = world.take_parked(random.below(parked.max(1))) else { return };
    match (parked.asked.name(), random.below(12)) {
        (_, 0) if random.one_in(3) => {
            world.may_fail = true;
            parked.panic();
        }
        (_, 1) => {
            world.may_fail = true;
            parked.fail_unavailable();
        }
        ("try_lock", 2..=5) | ("contended", 2..=6) => parked.refuse(),
        ("try_lock" | "lock", 6) => {
            let session = Session::unbounded();
            world.rig.script.script().sessions.push(session.clone());
            parked.grant_on(&session);
        }
        _ => parked.agree(),
    }
    if random.one_in(3) {
        world.rig.settle();
    }
}

#[test]
fn walks_keep_every_promise_at_every_step() {
    let only = std::env::var("SEED").ok().and_then(|seed| seed.parse::<u64>().ok());
    for seed in only.map_or(1..=WALKS, |seed| seed..=seed) {
        if let Err(failed) = catch_unwind(AssertUnwindSafe(|| walk(seed))) {
            eprintln!("walk with SEED={seed}");
            resume_unwind(failed);
        }
    }
}
