//! Futures dropped before and after each answer, and drops inside wakes and other drops.

mod scripted;

use coordinator_core::Mode::{Exclusive, Shared};
use coordinator_core::{ErasureCoordinator, ErasureCoordinatorExt, Error, Moment, Session, under_lock};
use scripted::caller::Caller;
use scripted::rig::{FOREVER, Rig, options, scope, within_a_minute};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// Drops the future after each of its steps: a poll, an answer, a poll …; afterwards nothing is held or queued.
fn dropped_after_each_step<T>(refused: usize, make: impl Fn(&Rig) -> Caller<T>) {
    for steps in 0.. {
        let rig = Rig::new();
        let mut caller = make(&rig);
        let (mut refused, mut is_done) = (refused, false);
        for step in 0..steps {
            if step % 2 == 0 {
                is_done = caller.poll().is_ready();
            } else if !rig.parked().is_empty() {
                let parked = rig.script.script().parked.remove(0);
                if refused > 0 && parked.asked.name() == "try_lock" {
                    refused -= 1;
                    parked.refuse();
                } else {
                    parked.agree();
                }
            }
            if is_done {
                break;
            }
        }
        drop(caller);
        rig.assert_over();
        drop(rig.holds(Exclusive)); // and the scope is free
        rig.assert_over();
        if is_done {
            return;
        }
        assert!(steps < 100, "it never ends");
    }
}

#[test]
fn a_dropped_acquire_leaves_nothing_held_or_queued() {
    for (mode, refused) in [(Exclusive, 0), (Exclusive, 1), (Shared, 0), (Shared, 1)] {
        dropped_after_each_step(refused, |rig| rig.asking(scope("s"), mode, false));
        dropped_after_each_step(refused, |rig| rig.asking(scope("s"), mode, true));
    }
}

#[test]
fn a_dropped_acquire_all_leaves_nothing_held_or_queued() {
    for refused in 0..3 {
        dropped_after_each_step(refused, |rig| {
            let coordinator = Arc::clone(&rig.coordinator);
            let wanted = [(scope("s"), Exclusive), (scope("t"), Shared), (scope("u"), Exclusive)];
            Caller::new(async move { coordinator.acquire_all(&wanted).await })
        });
    }
}

#[test]
fn a_dropped_release_verify_or_fence_leaves_nothing_held() {
    dropped_after_each_step(0, |rig| Caller::new(rig.holds(Exclusive).release()));
    dropped_after_each_step(0, |rig| {
        let lease = rig.holds(Shared);
        Caller::new(async move { lease.verify(Duration::ZERO).await })
    });
    dropped_after_each_step(0, |rig| {
        let lease = rig.holds(Shared);
        Caller::new(async move { lease.fence().await.map(coordinator_core::FencingToken::get) })
    });
}

#[test]
fn an_acquire_that_takes_too_long_leaves_nothing_and_needs_no_runtime() {
    let rig = Rig::new();
    let lease = rig.holds(Exclusive);
    let coordinator = Arc::clone(&rig.coordinator);
    let limit = Duration::from_millis(5);
    let mut within = Caller::new(async move { coordinator.acquire_within(&scope("s"), Shared, limit).await });
    assert!(within.is_pending());
    rig.until("the limit", || within.is_due());
    assert!(within.ready().expect("no error").is_none());
    drop(lease);
    rig.take("unlock").agree();
    rig.assert_over();
}

#[test]
fn a_dropped_under_lock_leaves_nothing_held() {
    for refused in 0..2 {
        dropped_after_each_step(refused, |rig| {
            let coordinator = Arc::clone(&rig.coordinator);
            Caller::new(async move {
                under_lock(&*coordinator, &scope("s"), Exclusive, async |lease| {
                    lease.verify(Duration::ZERO).await?;
                    lease.fence().await?;
                    tokio::task::yield_now().await;
                    Ok::<_, Error>(())
                })
                .await
            })
        });
    }
}

#[test]
fn a_grant_whose_waiter_went_while_it_was_told_is_given_back() {
    // In the wake of the first of two who are served together, the second goes away.
    for mode_behind in [None, Some(Exclusive), Some(Shared)] {
        let rig = Rig::new();
        let holder = rig.holds(Exclusive);
        let (mut first, second) = (rig.waits(Shared), rig.waits(Shared));
        let mut behind = mode_behind.map(|mode| rig.waits(mode));
        first.on_wake(move || drop(second));
        drop(holder);
        rig.take("unlock").agree();
        rig.take("try_lock").agree();
        drop(rig.granted(&mut first));
        rig.settle();
        if let Some(behind) = &mut behind {
            if mode_behind == Some(Exclusive) {
                rig.take("unlock").agree();
                rig.take("try_lock").agree();
            }
            drop(rig.granted(behind));
        }
        rig.take("unlock").agree();
        rig.assert_over();
    }
}

#[test]
fn a_wake_may_drop_a_lease_of_the_same_scope() {
    within_a_minute("a lease dropped in the wake of a grant", || {
        let rig = Rig::new();
        let holder = rig.holds(Shared);
        let exclusive = rig.waits(Exclusive);
        let mut shared = rig.waits(Shared);
        shared.on_wake(move || drop(holder));
        drop(exclusive);
        drop(rig.granted(&mut shared));
        rig.assert_over();
    });
    within_a_minute("a lease dropped in the wake of an error", || {
        let rig = Rig::new();
        let (mut first, second) = (rig.waits(Exclusive), rig.waits(Exclusive));
        first.on_wake(move || drop(second));
        rig.take("try_lock").fail_unavailable();
        assert!(rig.told(&mut first).is_err());
        rig.assert_over();
    });
}

#[test]
fn the_wake_of_a_loss_may_drop_a_lease_of_the_same_scope() {
    // Whoever looks first past the deadline tells: a caller, a leaver, one who cancels.
    let events: [fn(&Rig); 3] = [
        |rig| drop(rig.waits(Shared)),
        |rig| drop(rig.tries(Exclusive)),
        |rig| rig.script.script().parked.drain(..).for_each(scripted::Parked::agree),
    ];
    for event in events {
        within_a_minute("a lease dropped in the wake of its loss", move || {
            let rig = Rig::with(options(Duration::ZERO, FOREVER));
            let mut waits = rig.waits(Shared);
            let deadline = Moment::now().after(Duration::from_millis(50));
            rig.take("try_lock").grant_on(&Session::until(deadline));
            let lease = rig.granted(&mut waits);
            let mut lost = Caller::new(lease.lost());
            let pending = rig.waits(Shared); // asks whether somebody waits
            rig.settle();
            assert!(lost.is_pending());
            lost.on_wake(move || drop(lease));
            rig.until("the deadline", || deadline.remaining().is_zero());
            event(&rig);
            rig.settle();
            assert!(matches!(lost.poll(), Poll::Ready(_)));
            drop(pending);
            rig.assert_over();
        });
    }
}

#[test]
fn the_drop_of_a_grant_may_drop_a_lease_of_the_same_scope() {
    let endings: [fn(&Rig); 4] = [
        |rig| drop(rig.waits(Exclusive)),
        |rig| drop(rig.asking(scope("s"), Shared, false).poll()),
        |rig| rig.script.script().sessions[0].lose(coordinator_core::LossReason::Disconnected),
        |_| {},
    ];
    for window in [Duration::ZERO, FOREVER] {
        for ending in endings {
            within_a_minute("a lease dropped in the drop of a grant", move || {
                let rig = Rig::with(options(window, FOREVER)).automatic();
                let mut asking = [rig.waits(Shared), rig.waits(Shared), rig.waits(Shared)];
                rig.settle();
                let [lease, burden, other] = asking.each_mut().map(|asking| rig.granted(asking));
                rig.script.burden(vec![burden]);
                ending(&rig);
                rig.settle();
                drop(lease);
                rig.settle();
                drop(other);
                rig.assert_over();
            });
        }
    }
}

#[test]
fn without_a_caller_a_shut_down_upkeep_is_an_error_and_not_a_hang() {
    let mut rig = Rig::new();
    let lease = rig.holds(Exclusive);
    let mut waits = rig.waits(Exclusive);
    rig.end_upkeep();
    rig.script.script().sessions[0].lose(coordinator_core::LossReason::Disconnected);
    drop(lease);
    assert!(waits.ready().expect_err("nobody can be asked").is_retryable());
    let mut late = rig.asking(scope("s"), Shared, false);
    assert!(late.ready().expect_err("nobody can be asked").is_retryable());
    let coordinator = Arc::clone(&rig.coordinator);
    let mut shutdown = Caller::new(async move { coordinator.shutdown(FOREVER).await });
    assert!(shutdown.ready().expect_err("its tasks are gone").is_retryable());
    assert_eq!(rig.scopes(), 0);
}
