//! Who is asked to give up is told at once, and keeps others out until it has left.

mod scripted;

use coordinator_core::Mode::{Exclusive, Shared};
use coordinator_core::{ErrorKind, Lease, LossReason, Session, under_lock};
use scripted::caller::Caller;
use scripted::rig::{FOREVER, Rig, options, scope};
use std::sync::Arc;
use std::time::Duration;

fn is_revoked(lease: &Lease) -> bool {
    lease.ensure_live().is_err_and(|error| error.kind() == ErrorKind::Lost(LossReason::Revoked))
}

#[test]
fn every_lease_of_the_scope_is_told() {
    for mode in [Exclusive, Shared] {
        let rig = Rig::new();
        let mut leases = vec![rig.holds(mode)];
        if mode == Shared {
            leases.push(rig.joins(Shared));
        }
        let lost: Vec<_> = leases.iter().map(|lease| Caller::new(lease.lost())).collect();
        rig.revoke(scope("s"));
        for mut lost in lost {
            assert_eq!(lost.ready(), LossReason::Revoked);
        }
        assert!(leases.iter().all(is_revoked));
        assert!(leases.iter().all(|lease| lease.remaining().is_zero()));
        drop(leases);
        rig.take("unlock").agree();
        rig.assert_over();
    }
}

#[test]
fn nobody_follows_before_the_revoked_holder_has_left() {
    for (held, wanted) in [(Exclusive, Exclusive), (Exclusive, Shared), (Shared, Exclusive), (Shared, Shared)] {
        let rig = Rig::new();
        let lease = rig.holds(held);
        let mut earlier = (wanted == Exclusive).then(|| rig.waits(wanted));
        rig.revoke(scope("s"));
        let mut later = rig.waits(wanted);
        assert!(rig.asking(scope("s"), wanted, true).ready().expect("no error").is_none());
        assert_eq!(rig.parked(), [""; 0]);
        drop(lease);
        rig.take("unlock").agree(); // not handed on: the other instances may be waiting too
        rig.take("try_lock").agree();
        if let Some(earlier) = &mut earlier {
            drop(rig.granted(earlier));
        }
        drop(rig.granted(&mut later));
        rig.assert_over();
    }
}

#[test]
fn the_other_scopes_of_the_session_live_on() {
    let rig = Rig::new();
    let lease = rig.holds(Exclusive);
    let mut asking = rig.asking(scope("t"), Exclusive, false);
    assert!(asking.is_pending());
    rig.take("try_lock").agree();
    let other = rig.granted(&mut asking);
    rig.revoke(scope("s"));
    assert!(is_revoked(&lease));
    assert!(other.ensure_live().is_ok());
    drop((lease, other));
    rig.assert_over();
}

#[test]
fn a_later_tenure_is_not_revoked() {
    let rig = Rig::new();
    rig.revoke(scope("s")); // nobody holds it
    let lease = rig.holds(Exclusive);
    assert!(lease.ensure_live().is_ok());
    rig.revoke(scope("s"));
    let mut next = rig.waits(Exclusive);
    drop(lease);
    rig.take("unlock").agree();
    rig.take("try_lock").agree();
    assert!(rig.granted(&mut next).ensure_live().is_ok());
    rig.assert_over();
}

#[test]
fn a_look_that_is_under_way_hands_nothing_on() {
    for others_wait in [false, true] {
        let rig = Rig::with(options(Duration::ZERO, FOREVER));
        let lease = rig.holds(Shared);
        let mut next = rig.waits(Shared);
        let look = rig.take("contended");
        rig.revoke(scope("s"));
        if others_wait {
            look.refuse();
        } else {
            look.agree();
        }
        assert_eq!(rig.parked(), [""; 0]);
        drop(lease);
        rig.take("unlock").agree();
        rig.take("try_lock").agree();
        assert!(rig.granted(&mut next).ensure_live().is_ok());
        rig.assert_over();
    }
}

#[test]
fn what_needs_a_live_lease_fails_and_says_why() {
    let rig = Rig::new();
    let lease = rig.holds(Exclusive);
    rig.revoke(scope("s"));
    let lost = ErrorKind::Lost(LossReason::Revoked);
    let lease = Arc::new(lease);
    let (verified, fenced) = (Arc::clone(&lease), Arc::clone(&lease));
    let mut verify = Caller::new(async move { verified.verify(Duration::ZERO).await });
    assert_eq!(verify.ready().expect_err("revoked").kind(), lost);
    let mut fence = Caller::new(async move { fenced.fence().await });
    assert_eq!(fence.ready().expect_err("revoked").kind(), lost);
    drop((verify, fence));
    let lease = Arc::into_inner(lease).expect("the only one");
    assert_eq!(Caller::new(lease.release()).ready().expect_err("revoked").kind(), lost);
    rig.take("unlock").agree();
    rig.assert_over();
}

#[test]
fn the_work_under_the_lock_ends_and_the_scope_is_freed() {
    let rig = Rig::new();
    let coordinator = Arc::clone(&rig.coordinator);
    let mut work = Caller::new(async move {
        let forever = async |_: &Lease| std::future::pending::<Result<(), coordinator_core::Error>>().await;
        under_lock(&coordinator, &scope("s"), Exclusive, forever).await
    });
    assert!(work.is_pending());
    rig.take("try_lock").agree();
    rig.settle();
    assert!(work.is_pending());
    rig.revoke(scope("s"));
    assert_eq!(work.ready().expect_err("revoked").kind(), ErrorKind::Lost(LossReason::Revoked));
    rig.take("unlock").agree();
    rig.assert_over();
}

#[test]
fn a_session_that_is_lost_after_it_frees_the_scope_for_who_waits() {
    let rig = Rig::new();
    let lease = rig.holds(Exclusive);
    let mut next = rig.waits(Exclusive);
    rig.revoke(scope("s"));
    assert_eq!(rig.parked(), [""; 0]);
    let session: Session = rig.script.script().sessions[0].clone();
    session.lose(LossReason::Disconnected);
    rig.take("try_lock").agree();
    assert!(rig.granted(&mut next).ensure_live().is_ok());
    assert!(is_revoked(&lease)); // the first reason stays
    drop(lease);
    rig.assert_over();
}
