//! What callers are told of a backend that is away.

mod scripted;

use coordinator_core::Mode::{Exclusive, Shared};
use coordinator_core::{Error, ErrorKind};
use scripted::rig::{FOREVER, Rig, options};
use std::time::Duration;

#[test]
fn an_outage_answers_all_waiters_at_once() {
    let rig = Rig::new();
    let mut waiters = [rig.waits(Exclusive), rig.waits(Shared), rig.tries(Shared)];
    rig.take("try_lock").fail_unavailable();
    for waiter in &mut waiters {
        assert_eq!(rig.told(waiter).expect_err("the backend is away").kind(), ErrorKind::Unavailable);
    }
    rig.assert_over();
}

#[test]
fn an_outage_is_outlasted_where_that_is_wanted() {
    let mut options = options(FOREVER, FOREVER);
    options.outlast_outages = true;
    let rig = Rig::with(options);
    let (mut waits, mut tries) = (rig.waits(Exclusive), rig.tries(Shared));
    rig.take("try_lock").fail_unavailable();
    assert_eq!(rig.told(&mut tries).expect_err("a try does not wait").kind(), ErrorKind::Unavailable);
    assert!(waits.is_pending());
    rig.take("lock").agree();
    drop(rig.granted(&mut waits));
    rig.agree_to_all();

    // What retrying does not help is told; so is what the wait itself ends with.
    let mut waits = rig.waits(Exclusive);
    rig.take("try_lock").fail(Error::new(ErrorKind::Invalid, "scripted", "never"));
    assert_eq!(rig.told(&mut waits).expect_err("invalid").kind(), ErrorKind::Invalid);
    let mut waits = rig.waits(Exclusive);
    rig.take("try_lock").refuse();
    rig.take("lock").fail_unavailable();
    assert_eq!(rig.told(&mut waits).expect_err("the backend is away").kind(), ErrorKind::Unavailable);
    rig.assert_over();
}

#[test]
fn a_look_that_fails_counts_as_one_that_found_somebody() {
    for panics in [false, true] {
        let rig = Rig::with(options(Duration::ZERO, FOREVER));
        let holder = rig.holds(Shared);
        let mut waits = rig.waits(Shared);
        let look = rig.take("contended");
        if panics {
            look.panic();
        } else {
            look.fail_unavailable();
        }
        rig.settle();
        assert!(waits.is_pending());
        drop(holder);
        rig.take("unlock").agree();
        rig.take("try_lock").agree();
        drop(rig.granted(&mut waits));
        rig.assert_over();
    }
}
