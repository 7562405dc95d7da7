//! The promises of `under_lock`.

mod scripted;

use coordinator_core::Mode::{self, Exclusive, Shared};
use coordinator_core::{ErasureCoordinator, Error, ErrorKind, Lease, LossReason, Upkeep, under_lock};
use scripted::caller::Caller;
use scripted::rig::{FOREVER, Rig, options, scope};
use scripted::{Backed, Scripted};
use std::future::pending;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// When it is dropped, tells how many scopes the coordinator has.
struct Guard(Arc<Backed>, Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.1.store(self.0.0.scopes(), SeqCst);
    }
}

const NOT_DROPPED: usize = 99;

/// Work that ends in a given way, and a guard in its future.
fn guarded<T: Send + 'static>(
    rig: &Rig,
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> (Caller<Result<T, Error>>, Arc<AtomicUsize>) {
    let dropped = Arc::new(AtomicUsize::new(NOT_DROPPED));
    let (coordinator, guard) = (Arc::clone(&rig.coordinator), Guard(Arc::clone(&rig.coordinator), dropped.clone()));
    let caller = Caller::new(async move {
        under_lock(&*coordinator, &scope("s"), Exclusive, async move |_| {
            let _guard = guard;
            work.await
        })
        .await
    });
    (caller, dropped)
}

#[test]
fn the_scope_is_released_and_confirmed_after_the_work() {
    let rig = Rig::new();
    let (mut caller, dropped) = guarded(&rig, async { Ok(7) });
    assert!(caller.is_pending());
    rig.take("try_lock").agree();
    rig.settle();
    assert!(caller.is_pending());
    assert_eq!(dropped.load(SeqCst), 1); // held when the work was dropped
    rig.take("unlock").agree();
    assert_eq!(rig.told(&mut caller).expect("done"), 7);
    rig.assert_over();
}

#[test]
fn the_works_error_wins_over_the_releases() {
    let failure = || Error::new(ErrorKind::Invalid, "work", "of the work");
    for (work_fails, expected) in [(true, ErrorKind::Invalid), (false, ErrorKind::Lost(LossReason::NotHeld))] {
        let rig = Rig::new();
        let (mut caller, _) = guarded(&rig, async move { if work_fails { Err(failure()) } else { Ok(()) } });
        assert!(caller.is_pending());
        rig.take("try_lock").agree();
        rig.settle();
        assert!(caller.is_pending());
        rig.take("unlock").refuse();
        assert_eq!(rig.told(&mut caller).expect_err("failed").kind(), expected);
        rig.assert_over();
    }
}

#[test]
fn work_under_a_lost_lease_is_dropped_at_its_next_await() {
    let rig = Rig::new();
    let (mut caller, dropped) = guarded(&rig, pending::<Result<(), Error>>());
    assert!(caller.is_pending());
    rig.take("try_lock").agree();
    rig.settle();
    assert!(caller.is_pending());
    assert_eq!(dropped.load(SeqCst), NOT_DROPPED);
    rig.script.script().sessions[0].lose(LossReason::Disconnected);
    assert!(caller.is_due());
    assert_eq!(caller.ready().expect_err("lost").kind(), ErrorKind::Lost(LossReason::Disconnected));
    assert_eq!(dropped.load(SeqCst), 1); // before the scope was given up
    assert_eq!(rig.parked(), [""; 0]); // nothing is confirmed on a dead session
    rig.assert_over();
}

#[test]
fn a_dropped_or_panicking_work_is_gone_before_the_scope_is_freed() {
    for panics in [false, true] {
        let rig = Rig::new();
        let work = async move {
            tokio::task::yield_now().await;
            if panics {
                std::panic::resume_unwind(Box::new("of the work"))
            } else {
                pending::<Result<(), Error>>().await
            }
        };
        let (mut caller, dropped) = guarded(&rig, work);
        assert!(caller.is_pending());
        rig.take("try_lock").agree();
        rig.settle();
        assert!(caller.is_pending());
        if panics {
            rig.settle();
            assert!(catch_unwind(AssertUnwindSafe(|| caller.poll())).is_err());
        }
        drop(caller);
        assert_eq!(dropped.load(SeqCst), 1);
        rig.take("unlock").agree();
        rig.assert_over();
    }
}

/// The kind of error of an `under_lock` of `s` inside one on `outer`, directly or in an irreversible step.
async fn nested<C>(outer: &C, inner: Arc<dyn ErasureCoordinator>, mode: Mode, in_step: bool) -> Option<ErrorKind>
where
    C: ErasureCoordinator + ?Sized,
{
    let nested = async move {
        under_lock(&inner, &scope("s"), mode, async |_| Ok::<_, Error>(())).await.err().map(|error| error.kind())
    };
    under_lock(outer, &scope("s"), Shared, async |lease: &Lease| {
        let found = if in_step { lease.irreversible(Duration::ZERO, nested).await? } else { nested.await };
        Ok::<_, Error>(found)
    })
    .await
    .expect("the outer one succeeds")
}

#[test]
fn a_task_that_holds_the_scope_already_is_told_instead_of_waiting_for_itself() {
    let rig = Rig::new().automatic();
    let same: Arc<dyn ErasureCoordinator> = rig.coordinator.clone();
    for mode in [Exclusive, Shared] {
        for in_step in [false, true] {
            // By whichever handle.
            let found = [
                rig.run(nested(&*rig.coordinator, same.clone(), mode, in_step)),
                rig.run(nested(&rig.coordinator, same.clone(), mode, in_step)),
                rig.run(nested(&same, same.clone(), mode, in_step)),
                rig.run(nested(&*same, Arc::new(Arc::clone(&same)), mode, in_step)),
            ];
            assert_eq!(found, [Some(ErrorKind::Reentrant); 4]);
        }
    }
    rig.until("all are freed", || rig.scopes() == 0);
}

#[test]
fn other_scopes_other_coordinators_and_later_calls_are_not_re_entry() {
    let rig = Rig::new().automatic();
    let mut options = options(FOREVER, FOREVER);
    options.upkeep = Upkeep::Process;
    let elsewhere = Arc::new(Backed(coordinator_core::Cohort::new(Scripted::default(), options)));
    elsewhere.0.driver().script().automatic = true;
    assert_eq!(rig.run(nested(&*rig.coordinator, elsewhere, Exclusive, false)), None);

    let coordinator = &*rig.coordinator;
    rig.run(under_lock(coordinator, &scope("s"), Exclusive, async |_| {
        under_lock(coordinator, &scope("t"), Exclusive, async |_| {
            let again = under_lock(coordinator, &scope("s"), Shared, async |_| Ok::<_, Error>(())).await;
            assert_eq!(again.expect_err("two levels up").kind(), ErrorKind::Reentrant);
            Ok::<_, Error>(())
        })
        .await
    }))
    .expect("done");
    rig.run(under_lock(coordinator, &scope("s"), Exclusive, async |_| Ok::<_, Error>(()))).expect("it is over");
    // Beside each other in one task, not inside each other.
    let (one, two) = rig.run(async {
        tokio::join!(
            async { under_lock(coordinator, &scope("s"), Shared, async |_| Ok::<_, Error>(())).await },
            async { under_lock(coordinator, &scope("s"), Exclusive, async |_| Ok::<_, Error>(())).await }
        )
    });
    one.and(two).expect("both");
}

#[test]
fn its_future_is_send() {
    let mut options = options(Duration::ZERO, Duration::ZERO);
    options.upkeep = Upkeep::Process;
    let coordinator = Arc::new(Backed(coordinator_core::Cohort::new(Scripted::default(), options)));
    coordinator.0.driver().script().automatic = true;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
    let inside = Arc::new(Mutex::new(Vec::new()));
    runtime.block_on(async {
        let tasks: Vec<_> = (0..200)
            .map(|n| {
                let (coordinator, inside) = (Arc::clone(&coordinator), Arc::clone(&inside));
                tokio::spawn(async move {
                    let scope = scope("s");
                    let mode = if n % 3 == 0 { Exclusive } else { Shared };
                    under_lock(&*coordinator, &scope, mode, async |lease| {
                        inside.lock().expect("not poisoned").push(mode);
                        lease.fence().await?;
                        let among = inside.lock().expect("not poisoned").clone();
                        assert!(among.len() == 1 || !among.contains(&Exclusive), "exclusion: {among:?}");
                        let mut inside = inside.lock().expect("not poisoned");
                        let at = inside.iter().position(|other| *other == mode).expect("it is inside");
                        inside.swap_remove(at);
                        Ok::<_, Error>(())
                    })
                    .await
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic").expect("done");
        }
    });
    coordinator.0.driver().assert_promises_kept();
}
