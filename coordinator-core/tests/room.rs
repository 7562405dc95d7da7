//! How many scopes an instance may have, and that those it had cost nothing.

mod scripted;

use coordinator_core::Mode::{Exclusive, Shared};
use coordinator_core::{ErasureCoordinatorExt, Error, ErrorKind, Leases, Mode};
use scripted::caller::Caller;
use scripted::rig::{FOREVER, Rig, granted, options, scope};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

fn capped(most_scopes: usize) -> Rig {
    let mut options = options(FOREVER, FOREVER);
    options.most_scopes = Some(most_scopes);
    options.wait_for_room = Duration::from_secs(10);
    Rig::with(options)
}

fn all(rig: &Rig, names: &[&str], mode: Mode) -> Caller<Result<Leases, Error>> {
    let wanted: Vec<_> = names.iter().map(|name| (scope(name), mode)).collect();
    let coordinator = Arc::clone(&rig.coordinator);
    Caller::new(async move { coordinator.acquire_all(&wanted).await })
}

#[test]
fn at_the_cap_a_caller_waits_a_stated_time() {
    let rig = capped(1);
    let lease = rig.holds(Exclusive);
    let mut other = rig.asking(scope("t"), Exclusive, false);
    assert!(other.is_pending());
    rig.pass(Duration::from_secs(9));
    assert!(other.is_pending());
    rig.pass(Duration::from_secs(2));
    assert_eq!(rig.told(&mut other).expect_err("no room").kind(), ErrorKind::Unavailable);
    assert_eq!(rig.parked(), [""; 0]);
    drop(lease);
    rig.assert_over();
}

#[test]
fn room_goes_to_who_waits_for_it_in_order() {
    let rig = capped(1);
    let lease = rig.holds(Exclusive);
    let mut waiting = [rig.asking(scope("t"), Exclusive, false), rig.asking(scope("u"), Exclusive, false)];
    assert!(waiting.iter_mut().all(Caller::is_pending));
    drop(lease);
    rig.agree_to_all();
    for waiting in &mut waiting {
        assert!(waiting.is_pending());
        rig.take("try_lock").agree();
        drop(rig.granted(waiting));
        rig.agree_to_all();
    }
    rig.assert_over();
}

#[test]
fn who_waits_for_room_and_goes_leaves_it_to_the_next() {
    for is_free in [false, true] {
        let rig = capped(1);
        let lease = rig.holds(Exclusive);
        let mut first = rig.asking(scope("t"), Exclusive, false);
        let mut second = rig.asking(scope("u"), Exclusive, false);
        assert!(first.is_pending() && second.is_pending());
        if is_free {
            drop(lease);
            rig.agree_to_all();
            drop(first); // the room is the first one's already
        } else {
            drop(first);
            drop(lease);
            rig.agree_to_all();
        }
        assert!(second.is_pending());
        rig.take("try_lock").agree();
        drop(rig.granted(&mut second));
        rig.assert_over();
    }
}

#[test]
fn a_try_does_not_wait_for_room() {
    let rig = capped(1);
    let lease = rig.holds(Exclusive);
    let mut tries = rig.asking(scope("t"), Exclusive, true);
    if tries.is_pending() {
        rig.pass(Duration::from_millis(1));
        assert_eq!(rig.told(&mut tries).expect_err("no room").kind(), ErrorKind::Unavailable);
    }
    drop(lease);
    rig.assert_over();
}

#[test]
fn a_scope_that_is_held_here_needs_no_more_room() {
    let rig = capped(1);
    let lease = rig.holds(Shared);
    drop(rig.joins(Shared));
    let mut waits = rig.waits(Exclusive);
    drop(lease);
    rig.take("unlock").agree();
    rig.take("try_lock").agree();
    drop(rig.granted(&mut waits));
    rig.assert_over();
}

#[test]
fn several_scopes_get_their_room_at_once() {
    let rig = capped(3);
    let lease = rig.holds(Exclusive);
    let (mut first, mut second) = (all(&rig, &["a", "b"], Exclusive), all(&rig, &["c", "d"], Exclusive));
    assert!(first.is_pending() && second.is_pending());
    // Room for three: with half of it each they would wait for each other.
    let leases = loop {
        rig.agree_to_all();
        match first.poll() {
            Poll::Ready(leases) => break leases.expect("granted"),
            Poll::Pending => assert!(second.is_pending()),
        }
    };
    drop(lease);
    rig.agree_to_all();
    assert!(second.is_pending());
    drop(leases);
    while second.is_pending() {
        rig.agree_to_all();
    }
    rig.assert_over();
}

#[test]
fn several_scopes_occupy_their_room_while_they_are_held() {
    let rig = capped(2);
    let mut both = all(&rig, &["a", "b"], Exclusive);
    assert!(both.is_pending());
    rig.take("try_lock").agree();
    rig.settle();
    assert!(both.is_pending());
    rig.take("try_lock").agree();
    let leases = rig.told(&mut both).expect("granted");
    drop(both);
    let mut other = rig.asking(scope("c"), Exclusive, false);
    assert!(other.is_pending());
    assert_eq!(rig.parked(), [""; 0]); // it waits for room, and nobody is asked
    drop(leases);
    rig.agree_to_all();
    assert!(other.is_pending());
    rig.take("try_lock").agree();
    drop(rig.granted(&mut other));
    rig.assert_over();
}

#[test]
fn several_scopes_are_all_or_nothing() {
    let rig = capped(2);
    let error = all(&rig, &["a", "b", "c"], Shared).ready().expect_err("more than the cap");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let error = all(&rig, &["a", "a"], Shared).ready().expect_err("named twice");
    assert_eq!(error.kind(), ErrorKind::Invalid);

    let lease = rig.holds(Exclusive);
    let mut two = all(&rig, &["a", "b"], Shared);
    assert!(two.is_pending());
    rig.pass(Duration::from_secs(11));
    assert_eq!(rig.told(&mut two).expect_err("no room").kind(), ErrorKind::Unavailable);
    drop(lease);
    rig.agree_to_all();

    // One of them fails: the other is freed.
    let mut two = all(&rig, &["a", "b"], Exclusive);
    assert!(two.is_pending());
    rig.take("try_lock").agree();
    rig.settle();
    assert!(two.is_pending());
    rig.take("try_lock").fail_unavailable();
    assert!(rig.told(&mut two).is_err());
    rig.assert_over();
}

#[test]
fn several_scopes_are_taken_in_one_order_whatever_the_callers() {
    let rig = Rig::new();
    let (mut first, mut second) = (all(&rig, &["a", "b"], Exclusive), all(&rig, &["b", "a"], Exclusive));
    assert!(first.is_pending() && second.is_pending());
    rig.take("try_lock").agree();
    rig.settle();
    assert!(first.is_pending());
    rig.take("try_lock").agree();
    let leases = rig.told(&mut first).expect("granted");
    assert_eq!(leases.len(), 2);
    assert!(leases.get(&scope("a")).is_some() && leases.get(&scope("c")).is_none());
    drop(leases);
    rig.settle();
    while second.is_pending() {
        rig.agree_to_all();
    }
    rig.assert_over();
}

#[test]
fn a_cap_may_be_as_large_as_a_number_can_be() {
    let rig = capped(usize::MAX);
    drop(rig.holds(Shared));
    rig.assert_over();
}

#[test]
fn a_hundred_thousand_scopes_leave_nothing() {
    let rig = Rig::new().automatic();
    let scopes: Vec<_> = (0..100_000).map(|n| scope(&n.to_string())).collect();
    let mut waiting: Vec<_> = scopes.iter().map(|scope| rig.asking(*scope, Shared, false)).collect();
    assert!(waiting.iter_mut().all(Caller::is_pending));
    rig.until("all are granted", || rig.script.script().held.len() == 100_000);
    let leases: Vec<_> = waiting.iter_mut().map(|waiting| granted(waiting.ready())).collect();
    assert_eq!(rig.scopes(), 100_000);
    drop(leases);
    rig.until("all are freed", || rig.scopes() == 0);
    assert_eq!(rig.script.live(), []);
}
