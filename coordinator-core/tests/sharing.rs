//! Who is let in beside whom, and when the backend is asked.

mod scripted;

use coordinator_core::Look;
use coordinator_core::Mode::{self, Exclusive, Shared};
use scripted::Asked;
use scripted::caller::Caller;
use scripted::rig::{FOREVER, Rig, options, scope};
use std::time::{Duration, Instant};

fn mode_of(asked: &Asked) -> Mode {
    match asked {
        Asked::TryLock { mode, .. } | Asked::Lock { mode, .. } => *mode,
        other => panic!("{} has no mode", other.name()),
    }
}

#[test]
fn a_try_never_waits_for_a_holder() {
    for (held, tried) in [(Exclusive, Exclusive), (Exclusive, Shared), (Shared, Exclusive)] {
        for window in [Duration::ZERO, FOREVER] {
            let rig = Rig::with(options(window, FOREVER));
            let lease = rig.holds(held);
            assert!(rig.asking(scope("s"), tried, true).ready().expect("no error").is_none());
            drop(lease);
            rig.assert_over();
        }
    }
}

#[test]
fn a_try_never_waits_for_a_waiter() {
    for tried in [Exclusive, Shared] {
        // In line at the backend.
        let rig = Rig::new();
        let waiter = rig.waits(Exclusive);
        rig.take("try_lock").refuse();
        assert_eq!(rig.parked(), ["lock"]);
        assert!(rig.asking(scope("s"), tried, true).ready().expect("no error").is_none());
        drop(waiter);
        rig.assert_over();

        // Behind a holder of this instance.
        let lease = rig.holds(Shared);
        let waiter = rig.waits(Exclusive);
        let mut tries = rig.asking(scope("s"), tried, true);
        assert!(tries.ready().expect("no error").is_none());
        drop((lease, waiter));
        rig.assert_over();

        // About to be in line: the answer to the waiter's try is the answer to this one.
        let waiter = rig.waits(Exclusive);
        let mut tries = rig.tries(tried);
        rig.take("try_lock").refuse();
        assert!(rig.told(&mut tries).expect("no error").is_none());
        drop(waiter);
        rig.assert_over();
    }
}

#[test]
fn a_try_is_not_refused_by_the_release_before_it() {
    for (held, tried) in [(Exclusive, Exclusive), (Exclusive, Shared), (Shared, Exclusive), (Shared, Shared)] {
        for window in [Duration::ZERO, FOREVER] {
            let rig = Rig::with(options(window, FOREVER));
            drop(rig.holds(held));
            let mut tries = rig.tries(tried);
            rig.take("unlock").agree();
            let asked = rig.take("try_lock");
            assert_eq!(mode_of(&asked.asked), tried);
            asked.agree();
            drop(rig.granted(&mut tries));
            rig.assert_over();
        }
    }
}

#[test]
fn a_shared_try_is_not_refused_for_what_an_exclusive_one_wanted() {
    let rig = Rig::new();
    let (mut exclusive, mut shared, mut second) = (rig.tries(Exclusive), rig.tries(Shared), rig.tries(Exclusive));
    rig.take("try_lock").refuse(); // another instance holds it shared
    assert!(rig.told(&mut exclusive).expect("no error").is_none());
    let asked = rig.take("try_lock");
    assert_eq!(mode_of(&asked.asked), Shared);
    asked.agree();
    let lease = rig.granted(&mut shared);
    assert!(rig.told(&mut second).expect("no error").is_none());
    drop(lease);
    rig.assert_over();
}

#[test]
fn a_refused_shared_try_refuses_the_exclusive_ones_with_it() {
    let rig = Rig::new();
    let (mut shared, mut exclusive) = (rig.tries(Shared), rig.tries(Exclusive));
    rig.take("try_lock").refuse();
    assert!(rig.told(&mut shared).expect("no error").is_none());
    assert!(rig.told(&mut exclusive).expect("no error").is_none());
    rig.assert_over();
}

#[test]
fn a_shared_lock_held_longer_than_the_longest_tenure_is_joined_while_nobody_waits() {
    let rig = Rig::with(options(Duration::ZERO, Duration::ZERO));
    let first = rig.holds(Shared);
    let mut second = rig.waits(Shared);
    let asked = rig.take("contended");
    assert!(matches!(asked.asked, Asked::Contended { look: Look::Thorough, .. }));
    asked.agree();
    let second = rig.granted(&mut second);

    let mut third = rig.waits(Shared);
    rig.take("contended").refuse();
    assert_eq!(rig.parked(), [""; 0]);
    assert!(third.is_pending());
    let mut tries = rig.asking(scope("s"), Shared, true);
    assert!(tries.ready().expect("no error").is_none()); // it would wait for who is in
    drop(first);
    assert_eq!(rig.parked(), [""; 0]);
    drop(second);
    rig.take("unlock").agree(); // whoever waits elsewhere goes first
    rig.take("try_lock").agree();
    drop(rig.granted(&mut third));
    rig.assert_over();
}

#[test]
fn a_quick_look_suffices_before_the_longest_tenure_is_over() {
    let rig = Rig::with(options(Duration::ZERO, FOREVER));
    let first = rig.holds(Exclusive);
    let mut second = rig.waits(Exclusive);
    drop(first);
    let asked = rig.take("contended");
    assert!(matches!(asked.asked, Asked::Contended { look: Look::Quick, .. }));
    asked.agree();
    drop(rig.granted(&mut second));
    rig.assert_over();
}

#[test]
fn after_the_longest_tenure_a_scope_is_freed_whoever_waits() {
    let rig = Rig::with(options(FOREVER, Duration::ZERO));
    let first = rig.holds(Exclusive);
    let mut second = rig.waits(Exclusive);
    drop(first);
    rig.take("unlock").agree();
    rig.take("try_lock").agree();
    drop(rig.granted(&mut second));
    rig.assert_over();
}

#[test]
fn quick_looks_that_find_nobody_do_not_prolong_the_longest_tenure() {
    let tenure = Duration::from_millis(50);
    let rig = Rig::with(options(Duration::ZERO, tenure));
    let mut lease = rig.holds(Exclusive);
    let since = Instant::now();
    loop {
        let mut next = rig.waits(Exclusive);
        let held = since.elapsed();
        drop(lease);
        if rig.parked() == ["unlock"] {
            return;
        }
        assert!(held < tenure, "handed on after its longest tenure");
        rig.take("contended").agree();
        lease = rig.granted(&mut next);
    }
}

#[test]
fn within_the_window_nobody_is_asked() {
    for mode in [Exclusive, Shared] {
        let rig = Rig::new();
        let first = rig.holds(mode);
        let mut second = rig.asking(scope("s"), mode, false);
        assert_eq!(second.is_pending(), mode == Exclusive);
        if mode == Exclusive {
            drop(first);
            drop(rig.granted(&mut second));
        }
        assert_eq!(rig.parked(), ["unlock"; 1][..usize::from(mode == Exclusive)]);
    }
}

#[test]
fn a_lock_is_never_handed_to_callers_of_the_other_mode() {
    for (held, wanted) in [(Exclusive, Shared), (Shared, Exclusive)] {
        let rig = Rig::new();
        let lease = rig.holds(held);
        let mut next = rig.waits(wanted);
        drop(lease);
        rig.take("unlock").agree();
        let asked = rig.take("try_lock");
        assert_eq!(mode_of(&asked.asked), wanted);
        asked.agree();
        drop(rig.granted(&mut next));
        rig.assert_over();
    }
}

#[test]
fn shared_callers_behind_a_cancelled_exclusive_one_in_line_ask_anew() {
    let rig = Rig::new();
    let exclusive = rig.waits(Exclusive);
    rig.take("try_lock").refuse();
    let (mut second, mut third) = (rig.waits(Shared), rig.waits(Shared));
    let in_line = rig.take("lock");
    let Asked::Lock { unwanted, .. } = in_line.asked.clone() else { unreachable!("it is a lock") };
    assert!(!unwanted.is_cancelled());
    drop(exclusive);
    assert!(unwanted.is_cancelled());
    in_line.agree(); // nobody wants it: not granted
    let asked = rig.take("try_lock");
    assert_eq!(mode_of(&asked.asked), Shared);
    asked.agree();
    drop((rig.granted(&mut second), rig.granted(&mut third)));
    rig.assert_over();
}

#[test]
fn a_waiter_in_line_keeps_its_place_when_another_of_its_mode_leaves() {
    let rig = Rig::new();
    let (first, mut second) = (rig.waits(Exclusive), rig.waits(Exclusive));
    rig.take("try_lock").refuse();
    let in_line = rig.take("lock");
    drop(first);
    let Asked::Lock { unwanted, .. } = in_line.asked.clone() else { unreachable!("it is a lock") };
    assert!(!unwanted.is_cancelled());
    in_line.agree();
    drop(rig.granted(&mut second));
    rig.assert_over();
}

#[test]
fn shared_callers_behind_a_cancelled_exclusive_one_join_the_holder() {
    let rig = Rig::new();
    let holder = rig.holds(Shared);
    let exclusive = rig.waits(Exclusive);
    let mut shared = rig.waits(Shared);
    drop(exclusive);
    drop((rig.granted(&mut shared), holder));
    rig.assert_over();
}

#[test]
fn who_comes_first_is_served_first() {
    let rig = Rig::new();
    let mut holder = Some(rig.holds(Shared));
    let mut waiters: Vec<_> = [Exclusive, Exclusive, Shared, Exclusive].map(|mode| rig.waits(mode)).into();
    while !waiters.is_empty() {
        drop(holder.take());
        rig.agree_to_all();
        holder = Some(rig.granted(&mut waiters.remove(0)));
        assert!(waiters.iter_mut().all(Caller::is_pending));
    }
    drop(holder);
    rig.assert_over();
}

#[test]
fn windows_may_be_endless() {
    let rig = Rig::with(options(Duration::MAX, Duration::MAX));
    let first = rig.holds(Exclusive);
    let mut second = rig.waits(Exclusive);
    drop(first);
    drop(rig.granted(&mut second));
    rig.assert_over();
}
