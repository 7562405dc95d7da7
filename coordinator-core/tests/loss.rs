//! What a lost session means for who holds and for who waits.

mod scripted;

use coordinator_core::Mode::{Exclusive, Shared};
use coordinator_core::{ErrorKind, LossReason, Moment, Session};
use scripted::Asked;
use scripted::caller::Caller;
use scripted::rig::{FOREVER, Rig, options, scope};
use std::time::Duration;

fn lose(rig: &Rig) {
    let sessions = rig.script.script().sessions.clone();
    sessions.last().expect("a session").lose(LossReason::Disconnected);
    rig.settle();
}

#[test]
fn who_waits_behind_a_lost_lease_asks_anew_at_once() {
    for mode in [Exclusive, Shared] {
        let rig = Rig::new();
        let loser = rig.holds(Exclusive);
        let mut next = rig.waits(mode);
        lose(&rig);
        rig.take("try_lock").agree();
        let winner = rig.granted(&mut next);
        assert!(loser.ensure_live().is_err());
        drop(loser);
        assert_eq!(rig.parked(), [""; 0]); // the new holder is not disturbed
        assert!(winner.ensure_live().is_ok());
        assert!(rig.asking(scope("s"), Exclusive, true).ready().expect("no error").is_none());
        drop(winner);
        rig.assert_over();
    }
}

#[test]
fn a_lost_lease_without_waiters_leaves_nothing() {
    let rig = Rig::new();
    let lease = rig.holds(Shared);
    let other = rig.joins(Shared);
    lose(&rig);
    assert_eq!(rig.scopes(), 0);
    drop((lease, other));
    rig.assert_over();
}

#[test]
fn a_release_of_a_lost_lease_fails_with_lost() {
    let rig = Rig::new();
    let lease = rig.holds(Exclusive);
    lose(&rig);
    let error = Caller::new(lease.release()).ready().expect_err("lost");
    assert_eq!(error.kind(), ErrorKind::Lost(LossReason::Disconnected));
    rig.assert_over();
}

#[test]
fn a_release_says_what_the_backend_says() {
    // Freed at the backend, and handed on inside the instance.
    for handed_on in [false, true] {
        for answered in ["agree", "refuse", "fail", "panic"] {
            let rig = Rig::new();
            let lease = rig.holds(Exclusive);
            let mut next = handed_on.then(|| rig.waits(Exclusive));
            let mut release = Caller::new(lease.release());
            assert!(release.is_pending());
            let lease = next.as_mut().map(|next| rig.granted(next)); // at once
            let asked = rig.take(if handed_on { "confirm" } else { "unlock" });
            match answered {
                "agree" => asked.agree(),
                "refuse" => asked.refuse(),
                "fail" => asked.fail_unavailable(),
                _ => asked.panic(),
            }
            let kind = rig.told(&mut release).map_err(|error| error.kind());
            let expected = match answered {
                "agree" => Ok(()),
                "refuse" => Err(ErrorKind::Lost(LossReason::NotHeld)),
                _ => Err(ErrorKind::Unavailable),
            };
            assert_eq!(kind, expected);
            drop(lease);
            rig.assert_over();
        }
    }
}

#[test]
fn a_release_gives_one_lease_back_and_no_other() {
    let rig = Rig::new();
    let lease = rig.holds(Shared);
    let other = rig.joins(Shared);
    let mut release = Caller::new(lease.release());
    assert!(release.is_pending());
    rig.take("confirm").agree();
    rig.told(&mut release).expect("held to the end");
    drop(release);
    assert_eq!(rig.parked(), [""; 0]);
    assert!(other.ensure_live().is_ok());
    drop(other);
    rig.take("unlock").agree();
    rig.assert_over();
}

#[test]
fn a_lock_on_a_lost_session_is_granted_to_nobody() {
    let rig = Rig::new();
    let mut waits = rig.waits(Exclusive);
    let lost = Session::unbounded();
    lost.lose(LossReason::Disconnected);
    rig.take("try_lock").grant_on(&lost);
    assert!(waits.is_pending());
    rig.take("try_lock").agree();
    drop(rig.granted(&mut waits));
    rig.assert_over();
}

#[test]
fn a_look_that_a_lost_session_owes_changes_nothing() {
    for late in [true, false] {
        let rig = Rig::with(options(Duration::ZERO, FOREVER));
        let loser = rig.holds(Shared);
        let mut second = rig.waits(Shared);
        let look = rig.take("contended");
        lose(&rig);
        rig.take("try_lock").agree();
        let winner = rig.granted(&mut second);
        let mut third = rig.waits(Shared);
        let newer = rig.take("contended");
        if late {
            look.agree();
        } else {
            look.refuse();
        }
        rig.settle();
        assert!(third.is_pending());
        newer.agree();
        drop((rig.granted(&mut third), winner, loser));
        rig.assert_over();
    }
}

#[test]
fn a_deadline_that_passes_is_a_loss() {
    let rig = Rig::new();
    let mut waits = rig.waits(Exclusive);
    let deadline = Moment::now().after(Duration::from_millis(20));
    rig.take("try_lock").grant_on(&Session::until(deadline));
    let lease = rig.granted(&mut waits);
    assert!(lease.remaining() <= Duration::from_millis(20));
    let mut next = rig.waits(Exclusive);
    rig.until("the deadline", || deadline.remaining().is_zero());
    // Without anybody who tells: the next caller looks.
    let mut last = rig.waits(Shared);
    rig.take("try_lock").agree();
    let winner = rig.granted(&mut next);
    assert_eq!(lease.ensure_live().expect_err("past it").kind(), ErrorKind::Lost(LossReason::DeadlinePassed));
    drop(winner);
    rig.agree_to_all();
    drop(rig.granted(&mut last));
    rig.assert_over();
}

#[test]
fn verify_and_fence_of_a_lost_lease_ask_nobody() {
    let rig = Rig::new();
    let lease = rig.holds(Exclusive);
    lose(&rig);
    rig.run(async {
        assert!(lease.verify(Duration::ZERO).await.expect_err("lost").is_lost());
        assert!(lease.fence().await.expect_err("lost").is_lost());
        assert!(lease.irreversible(Duration::ZERO, async {}).await.expect_err("lost").is_lost());
        assert_eq!(lease.lost().await, LossReason::Disconnected);
    });
    assert_eq!(rig.parked(), [""; 0]);
}

#[test]
fn a_driver_that_panics_is_an_error_of_what_was_asked() {
    let rig = Rig::new();
    let lease = std::sync::Arc::new(rig.holds(Exclusive));
    let mut verify = Caller::new({
        let lease = lease.clone();
        async move { lease.verify(Duration::ZERO).await }
    });
    assert!(verify.is_pending());
    rig.take("verify").panic();
    let error = rig.told(&mut verify).expect_err("it panicked");
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Unavailable, "verify"));
    drop(verify);
    assert!(lease.ensure_live().is_ok());
    drop(lease);
    rig.assert_over();
}

#[test]
fn a_shutdown_ends_the_waits_in_line() {
    use coordinator_core::ErasureCoordinator;
    let rig = Rig::new();
    let mut waits = rig.waits(Exclusive);
    rig.take("try_lock").refuse();
    let in_line = rig.take("lock");
    let coordinator = std::sync::Arc::clone(&rig.coordinator);
    let mut shutdown = Caller::new(async move { coordinator.shutdown(FOREVER).await });
    assert!(shutdown.is_pending());
    let Asked::Lock { unwanted, .. } = in_line.asked.clone() else { unreachable!("it is a lock") };
    assert!(unwanted.is_cancelled());
    assert_eq!(waits.ready().expect_err("refused").kind(), ErrorKind::ShutDown);
    in_line.agree(); // nobody wants it: not granted
    rig.settle();
    assert!(shutdown.is_pending());
    rig.take("close").agree();
    assert_eq!(rig.told(&mut shutdown).expect("shut down").left, []);
    rig.assert_over();
}

#[test]
fn a_shutdown_at_its_limit_says_what_is_left_and_loses_it() {
    use coordinator_core::{ErasureCoordinator, Left};
    use std::sync::Arc;
    let rig = Rig::new();
    let lease = rig.holds(Shared);
    let other = rig.joins(Shared);
    let mut waits = rig.waits(Exclusive);
    let coordinator = Arc::clone(&rig.coordinator);
    let mut shutdown = Caller::new(async move { coordinator.shutdown(Duration::from_secs(5)).await });
    assert!(shutdown.is_pending());
    assert_eq!(waits.ready().expect_err("refused").kind(), ErrorKind::ShutDown);
    assert_eq!(rig.asking(scope("t"), Shared, true).ready().expect_err("refused").kind(), ErrorKind::ShutDown);
    rig.pass(Duration::from_secs(6));
    assert!(shutdown.is_pending());
    rig.take("close").agree();
    let report = rig.told(&mut shutdown).expect("shut down");
    assert_eq!(report.left, [Left { scope: scope("s"), mode: Shared, leases: 2 }]);
    assert_eq!(lease.ensure_live().expect_err("lost").kind(), ErrorKind::Lost(LossReason::ShutDown));
    drop((lease, other));
    rig.assert_over();
}
