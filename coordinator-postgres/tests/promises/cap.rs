//! The cap of scopes: a lock takes room that all clients of the server share.

use crate::support::{Deployment, PATIENCE, scope, soon, until};
use coordinator_postgres::{ErasureCoordinator, ErasureCoordinatorExt, ErrorKind, Mode};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const ROOM: Duration = Duration::from_millis(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_at_the_cap_waits_and_is_then_told() {
    let deployment = Deployment::new();
    let builder = deployment.builder("one").most_scopes(3).wait_for_room(ROOM);
    let one = Arc::new(builder.connect().await.expect("connected"));
    let mut held = Vec::new();
    for n in 0..3 {
        held.push(soon(&one, &scope(&format!("subject {n}")), Mode::Shared).await);
    }
    let begin = Instant::now();
    let error = one.acquire(&scope("subject 3"), Mode::Shared).await.expect_err("no room");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!((ROOM..ROOM * 4).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    assert!(error.to_string().contains('3'), "{error}");
    let begin = Instant::now();
    let error = one.try_acquire(&scope("subject 3"), Mode::Shared).await.expect_err("no room");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(begin.elapsed() < ROOM, "a try does not wait");
    // A scope that has room already needs no more.
    drop(soon(&one, &scope("subject 2"), Mode::Shared).await);
    let all: Vec<_> = (0..4).map(|n| (scope(&format!("more {n}")), Mode::Shared)).collect();
    assert_eq!(one.acquire_all(&all).await.expect_err("never").kind(), ErrorKind::Invalid);
    drop(held);
    until!("all room is given back", one.scopes() == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_waits_for_room_gets_what_is_freed() {
    let deployment = Deployment::new();
    let builder = deployment.builder("one").most_scopes(1).wait_for_room(PATIENCE);
    let one = Arc::new(builder.connect().await.expect("connected"));
    let mut held = soon(&one, &scope("subject 0"), Mode::Exclusive).await;
    for n in 1..20 {
        let subject = scope(&format!("subject {n}"));
        let mut waiter = one.acquire(&subject, Mode::Exclusive);
        assert!(futures_util::poll!(waiter.as_mut()).is_pending());
        if n % 2 == 0 {
            drop(held);
        } else {
            held.release().await.expect("held to the end");
        }
        held = waiter.await.expect("room was made");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_need_all_the_room_do_not_deadlock() {
    let deployment = Deployment::new();
    let one = Arc::new(deployment.builder("one").most_scopes(4).connect().await.expect("connected"));
    let mut tasks = JoinSet::new();
    for task in 0..3 {
        let one = Arc::clone(&one);
        tasks.spawn(async move {
            for round in 0..20 {
                let wanted: Vec<_> =
                    (0..4).map(|n| (scope(&format!("subject {}", (task + round + n) % 7)), Mode::Exclusive)).collect();
                let leases = tokio::time::timeout(PATIENCE, one.acquire_all(&wanted)).await.expect("no deadlock");
                leases.expect("room in the end").release().await.expect("held to the end");
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_cap_is_a_thousand_by_default() {
    let deployment = Deployment::new();
    let one = Arc::new(deployment.builder("one").wait_for_room(ROOM).connect().await.expect("connected"));
    let mut tasks = JoinSet::new();
    for n in 0..1_001 {
        let one = Arc::clone(&one);
        tasks.spawn(async move { one.acquire(&scope(&format!("subject {n}")), Mode::Exclusive).await });
    }
    let (mut held, mut refused) = (Vec::new(), Vec::new());
    while let Some(done) = tasks.join_next().await {
        match done.expect("no panic") {
            Ok(lease) => held.push(lease),
            Err(error) => refused.push(error.kind()),
        }
    }
    assert_eq!(held.len(), 1_000);
    assert_eq!(refused, [ErrorKind::Unavailable]);
    let all = held.iter().map(|lease| lease.verify(Duration::from_secs(1)));
    futures_util::future::try_join_all(all).await.expect("all are held");
}
