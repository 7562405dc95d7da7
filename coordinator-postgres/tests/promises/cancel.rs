//! An acquire that is given up holds nothing and stands in nobody's way.

use crate::support::{Deployment, PATIENCE, Server, passes, scope, soon, until};
use coordinator_postgres::{ErasureCoordinator, ErasureCoordinatorExt, Mode, PostgresCoordinator, Scope};
use futures_util::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::task::JoinSet;

const MODES: [Mode; 2] = [Mode::Exclusive, Mode::Shared];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_limits_of_milliseconds_strand_nobody() {
    let (deployment, scope, server) = (Deployment::new(), scope("busy"), Server::connect().await);
    let (timed_out, granted) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut instances = Vec::new();
    for n in 0..6 {
        instances.push(deployment.connect(&format!("i{n}")).await);
    }
    let mut tasks = JoinSet::new();
    for (n, instance) in instances.iter().enumerate() {
        let (instance, timed_out, granted) = (Arc::clone(instance), Arc::clone(&timed_out), Arc::clone(&granted));
        tasks.spawn(async move {
            for round in 0..700_u64 {
                let mode = MODES[usize::from(round % 5 == 0)];
                let limit = Duration::from_micros(1_000 + (n as u64 * 7_919 + round * 104_729) % 2_000);
                match instance.acquire_within(&scope, mode, limit).await.expect("no failure") {
                    None => drop(timed_out.fetch_add(1, Ordering::Relaxed)),
                    Some(lease) => {
                        granted.fetch_add(1, Ordering::Relaxed);
                        if round % 2 == 0 {
                            lease.release().await.expect("held to the end");
                        }
                    }
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic");
    }
    let (timed_out, granted) = (timed_out.load(Ordering::Relaxed), granted.load(Ordering::Relaxed));
    println!("{timed_out} timed out, {granted} granted");
    assert!(timed_out > 300 && granted > 50, "both must happen: {timed_out} timed out, {granted} granted");
    // Everybody who waits for longer is served, and at the end nothing is held or queued.
    let served: Vec<_> = instances.iter().map(|instance| passes(instance, scope, Mode::Exclusive)).collect();
    for waiter in served {
        waiter.await.expect("served");
    }
    until!("nothing is held or queued", server.locks(&deployment.namespace, 6).await == 0);
    assert!(instances.iter().all(|instance| instance.scopes() == 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uncontended_acquire_dropped_after_its_kth_poll_leaves_the_scope_free() {
    let deployment = Deployment::new();
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    for mode in MODES {
        let mut polls = 0;
        loop {
            let scope = scope(&format!("{mode} {polls}"));
            let done = polled(&one, &scope, mode, polls).await;
            is_soon_free(&two, &scope).await;
            if done {
                break;
            }
            polls += 1;
        }
        assert!(polls > 1, "the answer takes a while");
        // Polls when woken are few; moments between them are many.
        for step in 0..60 {
            let scope = scope(&format!("{mode} after step {step}"));
            drop(tokio::time::timeout(Duration::from_micros(step * 25), one.acquire(&scope, mode)).await);
            is_soon_free(&two, &scope).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_contended_acquire_dropped_at_any_moment_is_out_of_the_way() {
    let deployment = Deployment::new();
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    let three = deployment.connect("three").await;
    for mode in MODES {
        for step in 0..40 {
            let scope = scope(&format!("{mode} {step}"));
            let held = soon(&one, &scope, Mode::Exclusive).await;
            let waits = tokio::time::timeout(Duration::from_micros(step * 200), two.acquire(&scope, mode));
            if step % 3 == 0 {
                assert!(waits.await.is_err());
                drop(held);
            } else {
                // The holder leaves while the wait is on its way: the grant may come when nobody is there any more.
                let leaves = async {
                    tokio::time::sleep(Duration::from_micros(step * 130)).await;
                    drop(held);
                };
                drop(tokio::join!(waits, leaves));
            }
            is_soon_free(&three, &scope).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_nobody_received_is_given_back() {
    let (deployment, server) = (Deployment::new(), Server::connect().await);
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    let three = deployment.connect("three").await;
    for mode in MODES {
        for round in 0..10 {
            let scope = scope(&format!("{mode} {round}"));
            let held = soon(&one, &scope, Mode::Exclusive).await;
            let mut acquire = two.acquire(&scope, mode);
            poll_fn(|cx| {
                assert!(acquire.as_mut().poll(cx).is_pending());
                Poll::Ready(())
            })
            .await;
            let key = deployment.key(&scope);
            let before = server.pids(key, true).await;
            drop(held);
            until!("the waiter has it", {
                let now = server.pids(key, true).await;
                now.len() == 1 && now != before
            });
            drop(acquire); // granted, never polled again
            is_soon_free(&three, &scope).await;
        }
    }
}

/// Polls an acquire that often, when it is woken, and drops it; whether it was done by then.
async fn polled(coordinator: &PostgresCoordinator, scope: &Scope, mode: Mode, polls: usize) -> bool {
    let mut acquire = coordinator.acquire(scope, mode);
    let mut left = polls;
    poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        match acquire.as_mut().poll(cx) {
            Poll::Ready(lease) => {
                drop(lease.expect("no failure"));
                Poll::Ready(true)
            }
            Poll::Pending if left == 0 => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

async fn is_soon_free(coordinator: &PostgresCoordinator, scope: &Scope) {
    let lease = coordinator.acquire_within(scope, Mode::Exclusive, PATIENCE / 10).await.expect("no failure");
    lease.expect("free").release().await.expect("held to the end");
}
