//! Irreversible steps: verified first, owned by their own task, waited for.

mod scripted;

use coordinator_core::Mode::{Exclusive, Shared};
use coordinator_core::{ErasureCoordinatorExt, Error, ErrorKind, Leases, LossReason, Mode, Moment, Session};
use scripted::caller::Caller;
use scripted::rig::{Rig, scope};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::sync::oneshot;

/// A step that the test opens; it says that it began, and whether it ended.
struct Gate {
    open: Option<oneshot::Sender<()>>,
    has_begun: Arc<AtomicBool>,
    has_ended: Arc<AtomicBool>,
}

impl Gate {
    fn new() -> (Self, impl Future<Output = u8> + Send + 'static) {
        let (open, opened) = oneshot::channel();
        let (has_begun, has_ended) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let gate = Self { open: Some(open), has_begun: has_begun.clone(), has_ended: has_ended.clone() };
        let step = async move {
            has_begun.store(true, SeqCst);
            let _ = opened.await;
            has_ended.store(true, SeqCst);
            42
        };
        (gate, step)
    }

    fn open(&mut self) {
        let _ = self.open.take().expect("closed").send(());
    }
}

fn all(rig: &Rig, wanted: &[(&str, Mode)]) -> Leases {
    let wanted: Vec<_> = wanted.iter().map(|(name, mode)| (scope(name), *mode)).collect();
    rig.run(rig.coordinator.acquire_all(&wanted)).expect("granted")
}

#[test]
fn a_step_begins_only_after_the_backend_has_verified_the_lease() {
    for refused in [false, true] {
        let rig = Rig::new();
        let lease = rig.holds(Exclusive);
        let (mut gate, step) = Gate::new();
        let mut caller = Caller::new(async move { lease.irreversible(Duration::ZERO, step).await });
        assert!(caller.is_pending());
        let asked = rig.take("verify");
        assert!(!gate.has_begun.load(SeqCst));
        if refused {
            asked.refuse();
            assert!(rig.told(&mut caller).expect_err("not held").is_lost());
            assert!(!gate.has_begun.load(SeqCst));
        } else {
            gate.open();
            asked.agree();
            rig.until("the step", || caller.is_due() && caller.poll().is_ready());
            assert!(gate.has_ended.load(SeqCst));
        }
        drop(caller);
        rig.assert_over();
    }
}

#[test]
fn a_step_does_not_begin_when_too_little_time_is_guaranteed() {
    let rig = Rig::new();
    let mut waits = rig.waits(Exclusive);
    rig.take("try_lock").grant_on(&Session::until(Moment::now().after(Duration::from_secs(600))));
    let lease = rig.granted(&mut waits);
    let rig = rig.automatic();
    for (asked_for, is_enough) in [(60, true), (6_000, false)] {
        let (mut gate, step) = Gate::new();
        gate.open();
        let outcome = rig.run(lease.irreversible(Duration::from_secs(asked_for), step));
        let outcome = outcome.map_err(|error| error.kind());
        assert_eq!(outcome, if is_enough { Ok(42) } else { Err(ErrorKind::Unavailable) });
        assert_eq!(gate.has_begun.load(SeqCst), is_enough);
        let verified = rig.run(lease.verify(Duration::from_secs(asked_for))).map_err(|error| error.kind());
        assert_eq!(verified, if is_enough { Ok(()) } else { Err(ErrorKind::Unavailable) });
    }
}

#[test]
fn a_step_whose_caller_is_gone_before_it_began_never_runs() {
    let rig = Rig::new();
    let lease = rig.holds(Exclusive);
    let (gate, step) = Gate::new();
    let mut caller = Caller::new(async move { lease.irreversible(Duration::ZERO, step).await });
    assert!(caller.is_pending());
    let asked = rig.take("verify");
    drop(caller);
    asked.agree();
    rig.assert_over();
    assert!(!gate.has_begun.load(SeqCst));
    assert_eq!(Arc::strong_count(&gate.has_begun), 1); // it was dropped
}

#[test]
fn a_step_holds_the_scope_when_its_caller_and_its_lease_are_gone() {
    let rig = Rig::new();
    let lease = rig.holds(Exclusive);
    let (mut gate, step) = Gate::new();
    let mut caller = Caller::new(async move { lease.irreversible(Duration::ZERO, step).await });
    assert!(caller.is_pending());
    rig.take("verify").agree();
    rig.until("the step begins", || {
        let _ = caller.poll();
        gate.has_begun.load(SeqCst)
    });
    drop(caller); // and the lease with it
    assert_eq!(rig.parked(), [""; 0]);
    assert_eq!(rig.scopes(), 1);
    gate.open();
    rig.until("the scope is freed", || rig.parked() == ["unlock"]);
    assert!(gate.has_ended.load(SeqCst));
    rig.assert_over();
}

#[test]
fn a_step_goes_on_when_its_callers_runtime_is_dropped() {
    let rig = Rig::new();
    let lease = rig.holds(Exclusive);
    let rig = rig.automatic();
    let (mut gate, step) = Gate::new();
    let callers = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().expect("a runtime");
    callers.spawn(async move { lease.irreversible(Duration::ZERO, step).await });
    rig.until("the step begins", || gate.has_begun.load(SeqCst));
    callers.shutdown_background();
    rig.settle();
    assert_eq!(rig.scopes(), 1);
    gate.open();
    rig.until("the scope is freed", || rig.scopes() == 0);
    assert!(gate.has_ended.load(SeqCst));
}

#[test]
fn a_release_waits_for_the_steps() {
    let rig = Rig::new();
    let lease = Arc::new(rig.holds(Exclusive));
    let rig = rig.automatic();
    let (mut gate, step) = Gate::new();
    let mut caller = Caller::new({
        let lease = Arc::clone(&lease);
        async move { lease.irreversible(Duration::ZERO, step).await }
    });
    rig.until("the step begins", || {
        let _ = caller.poll();
        gate.has_begun.load(SeqCst)
    });
    drop(caller);
    let lease = Arc::into_inner(lease).expect("the only one");
    let mut release = Caller::new(lease.release());
    assert!(release.is_pending());
    rig.settle();
    assert!(release.is_pending());
    assert_eq!(rig.scopes(), 1);
    gate.open();
    rig.until("the release", || release.is_due() && release.poll().is_ready());
    assert_eq!(rig.scopes(), 0);
    assert!(gate.has_ended.load(SeqCst));
}

#[test]
fn a_step_that_panics_panics_its_caller_and_frees_the_scope() {
    let rig = Rig::new().automatic();
    let leases = all(&rig, &[("s", Exclusive), ("t", Shared)]);
    let step = async { std::panic::resume_unwind(Box::new("of the step")) };
    let failed = catch_unwind(AssertUnwindSafe(|| {
        let outcome: Result<(), Error> = rig.run(leases.irreversible(Duration::ZERO, step));
        outcome
    }));
    assert_eq!(failed.expect_err("it panicked").downcast_ref(), Some(&"of the step"));
    assert!(leases.ensure_live().is_ok());
    rig.run(leases.release()).expect("confirmed");
    assert_eq!(rig.scopes(), 0);
}

#[test]
fn a_step_under_several_leases_holds_all_of_them() {
    let rig = Rig::new().automatic();
    let leases = all(&rig, &[("s", Exclusive), ("t", Shared)]);
    let (mut gate, step) = Gate::new();
    let mut caller = Caller::new(async move { leases.irreversible(Duration::ZERO, step).await });
    rig.until("the step begins", || {
        let _ = caller.poll();
        gate.has_begun.load(SeqCst)
    });
    drop(caller);
    rig.settle();
    assert_eq!(rig.scopes(), 2);
    gate.open();
    rig.until("both are freed", || rig.scopes() == 0);
}

#[test]
fn a_step_under_several_leases_needs_all_of_them() {
    let rig = Rig::new();
    let rig = rig.automatic();
    let leases = all(&rig, &[("s", Exclusive), ("t", Shared)]);
    rig.script.script().automatic = false;
    let (gate, step) = Gate::new();
    let mut caller = Caller::new(async move { leases.irreversible(Duration::ZERO, step).await });
    assert!(caller.is_pending());
    rig.take("verify").agree();
    rig.settle();
    assert!(caller.is_pending());
    rig.take("verify").refuse();
    assert!(rig.told(&mut caller).expect_err("the second is not held").is_lost());
    drop(caller);
    rig.assert_over();
    assert!(!gate.has_begun.load(SeqCst));
}

#[test]
fn a_step_ends_while_the_callers_thread_is_blocked() {
    let rig = Rig::new();
    let lease = rig.holds(Exclusive);
    let (tell, told) = mpsc::channel();
    let step = async move { tell.send(std::thread::current().id()) };
    let mut caller = Caller::new(async move { lease.irreversible(Duration::ZERO, step).await });
    assert!(caller.is_pending());
    rig.take("verify").agree();
    rig.settle();
    let _ = caller.poll();
    let thread = told.recv_timeout(Duration::from_secs(60)).expect("it runs without this thread");
    assert_ne!(thread, std::thread::current().id());
}

#[test]
fn several_leases_are_verified_one_by_one_and_the_first_loss_is_told() {
    let rig = Rig::new().automatic();
    let sessions = [Session::unbounded(), Session::unbounded()];
    rig.script.script().sessions.push(sessions[0].clone());
    let first = all(&rig, &[("s", Exclusive)]);
    rig.script.script().sessions.push(sessions[1].clone());
    let both = all(&rig, &[("t", Exclusive), ("u", Shared)]);
    rig.run(both.verify(Duration::from_secs(1_000))).expect("both are held");
    let mut lost = Caller::new(both.lost());
    assert!(lost.is_pending());
    sessions[0].lose(LossReason::Disconnected);
    assert!(lost.is_pending()); // not theirs
    sessions[1].lose(LossReason::NotHeld);
    assert_eq!(lost.ready(), LossReason::NotHeld);
    assert!(both.ensure_live().expect_err("lost").is_lost());
    assert!(rig.run(both.verify(Duration::ZERO)).expect_err("lost").is_lost());
    drop((first, both));
    rig.assert_over();
}
