//! Waiting: longer than slices, for more scopes than sessions, by more callers than anybody has connections.

use crate::support::{Deployment, PATIENCE, Server, scope, soon, until, waiters, waits};
use coordinator_postgres::{ErasureCoordinator, Mode, PostgresCoordinator, Scope};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::{JoinHandle, JoinSet};

/// About three times as long as a slice of waiting.
const LONG: Duration = Duration::from_secs(6);

/// Holds and takes anew until told to stop, without a gap in which nobody on this instance holds.
fn flow(coordinator: &Arc<PostgresCoordinator>, scope: Scope, mode: Mode, stop: &Arc<AtomicBool>) -> JoinHandle<usize> {
    let (coordinator, stop) = (Arc::clone(coordinator), Arc::clone(stop));
    tokio::spawn(async move {
        let mut holds = 0;
        while !stop.load(Ordering::Relaxed) {
            let lease = tokio::time::timeout(4 * PATIENCE, coordinator.acquire(&scope, mode)).await;
            let lease = lease.expect("not starved").expect("no failure");
            tokio::time::sleep(LONG).await;
            lease.release().await.expect("held to the end");
            holds += 1;
        }
        holds
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exclusive_waiter_gets_in_when_the_present_long_shared_holds_end() {
    let (deployment, scope, stop) = (Deployment::new(), scope("subject"), Arc::new(AtomicBool::new(false)));
    let mut instances = Vec::new();
    for name in ["one", "two", "three"] {
        instances.push(deployment.connect(name).await);
    }
    // Two overlapping flows on two instances: at no moment is the scope free by itself.
    let first = flow(&instances[0], scope, Mode::Shared, &stop);
    tokio::time::sleep(LONG / 2).await;
    let second = flow(&instances[1], scope, Mode::Shared, &stop);
    until!("both hold", instances[2].inspect(&scope).await.expect("an answer").holders.len() == 2);
    let begin = Instant::now();
    let (lease, granted) = waits(&instances[2], scope, Mode::Exclusive).await.expect("served");
    let waited = granted - begin;
    println!("waited {waited:?} for holds of {LONG:?}");
    assert!(waited < LONG + Duration::from_secs(1), "overtaken: {waited:?}");
    assert!(waited > LONG / 3, "the flows did not overlap: {waited:?}");
    stop.store(true, Ordering::Relaxed);
    lease.release().await.expect("held to the end");
    assert!(first.await.expect("no panic") + second.await.expect("no panic") >= 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shared_waiter_gets_in_through_a_flow_of_long_exclusive_holds() {
    let (deployment, scope, stop) = (Deployment::new(), scope("subject"), Arc::new(AtomicBool::new(false)));
    let mut instances = Vec::new();
    for name in ["one", "two", "three"] {
        instances.push(deployment.connect(name).await);
    }
    let flows =
        [flow(&instances[0], scope, Mode::Exclusive, &stop), flow(&instances[1], scope, Mode::Exclusive, &stop)];
    waiters(&instances[2], &scope, 1).await;
    let begin = Instant::now();
    let (lease, granted) = waits(&instances[2], scope, Mode::Shared).await.expect("served");
    stop.store(true, Ordering::Relaxed);
    println!("waited {:?} for holds of {LONG:?}", granted - begin);
    assert!(granted - begin < 2 * LONG + Duration::from_secs(2), "overtaken: {:?}", granted - begin);
    drop(lease);
    for flow in flows {
        flow.await.expect("no panic");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_held_scopes_than_waiting_sessions_are_all_served() {
    let (deployment, server) = (Deployment::new(), Server::connect().await);
    let one = deployment.connect("one").await;
    let two = Arc::new(deployment.builder("two").waiting_sessions(2).connect().await.expect("connected"));
    let mut held = Vec::new();
    let mut waiting = Vec::new();
    for n in 0..12 {
        let scope = scope(&format!("subject {n}"));
        let mode = if n % 3 == 0 { Mode::Shared } else { Mode::Exclusive };
        held.push((n, soon(&one, &scope, mode).await));
        waiting.push(waits(&two, scope, Mode::Exclusive));
    }
    until!("two sessions wait", server.locks(&deployment.instance("two"), 1).await >= 2);
    // Some orders are worse than others: what is freed last may be what the sessions wait for.
    for n in [11, 3, 7, 0, 9, 1, 10, 2, 8, 4, 6, 5] {
        let at = held.iter().position(|(name, _)| *name == n).expect("held");
        let begin = Instant::now();
        held.remove(at).1.release().await.expect("held to the end");
        let waiter = std::mem::replace(&mut waiting[n], tokio::spawn(std::future::pending()));
        let (lease, granted) = waiter.await.expect("served");
        assert!(granted - begin < Duration::from_secs(8), "scope {n} took {:?}", granted - begin);
        assert!(server.sessions(&deployment.instance("two")).await <= 3);
        lease.release().await.expect("held to the end");
    }
    until!("nothing is left", server.locks(&deployment.namespace, 2).await == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_tasks_that_wait_for_another_instance_need_no_more_connections() {
    let (deployment, server, scope) = (Deployment::new(), Server::connect().await, scope("subject"));
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    let held = soon(&one, &scope, Mode::Exclusive).await;
    let inside = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for task in 0..10_000 {
        let (two, inside) = (Arc::clone(&two), Arc::clone(&inside));
        tasks.spawn(async move {
            let mode = if task / 100 % 2 == 0 { Mode::Shared } else { Mode::Exclusive };
            let lease = two.acquire(&scope, mode).await.expect("no failure");
            let others = inside.fetch_add(1, Ordering::SeqCst);
            assert!(mode == Mode::Shared || others == 0);
            inside.fetch_sub(1, Ordering::SeqCst);
            drop(lease);
        });
    }
    waiters(&one, &scope, 1).await; // many callers are one waiter
    let most = 1 + 4;
    assert!(server.sessions(&deployment.instance("two")).await <= most);
    let begin = Instant::now();
    held.release().await.expect("held to the end");
    while let Some(done) = tasks.join_next().await {
        done.expect("served");
        if tasks.len() % 2_000 == 0 {
            assert!(server.sessions(&deployment.instance("two")).await <= most);
        }
    }
    println!("10,000 served in {:?}", begin.elapsed());
    until!("nothing is left", server.locks(&deployment.namespace, 2).await == 0);
}
