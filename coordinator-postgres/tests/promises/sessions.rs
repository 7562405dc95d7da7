//! Sessions end with what they are for.

use crate::support::{Deployment, PATIENCE, Server, scope, soon, until, waiters, waits};
use coordinator_postgres::{ErasureCoordinator, ErrorKind, LossReason, Mode};
use std::sync::Arc;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_coordinator_ends_its_sessions() {
    let (deployment, server, scope) = (Deployment::new(), Server::connect().await, scope("subject"));
    let one = deployment.connect("one").await;
    let held = soon(&one, &scope, Mode::Exclusive).await;
    // With waiting sessions idle, and others at work for callers that went away with it.
    let two = deployment.connect("two").await;
    let waiter = waits(&two, scope, Mode::Exclusive);
    waiters(&one, &scope, 1).await;
    waiter.abort();
    drop(two);
    until!("its sessions end", server.sessions(&deployment.instance("two")).await == 0);
    // A lease keeps what it lives on.
    drop(one);
    held.verify(Duration::from_secs(1)).await.expect("still held");
    assert!(server.sessions(&deployment.instance("one")).await >= 1);
    held.release().await.expect("held to the end");
    until!("its sessions end", server.sessions(&deployment.namespace).await == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_connect_leaves_no_session() {
    let (deployment, server) = (Deployment::new(), Server::connect().await);
    for step in 0..40 {
        let connect = deployment.builder("one").connect();
        drop(tokio::time::timeout(Duration::from_micros(step * 400), connect).await);
    }
    until!("no session is left", server.sessions(&deployment.namespace).await == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_frees_what_is_left_and_says_so() {
    let (deployment, server) = (Deployment::new(), Server::connect().await);
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    let (kept, shared, given) = (scope("kept"), scope("shared"), scope("given back"));
    let leases = [
        soon(&one, &kept, Mode::Exclusive).await,
        soon(&one, &shared, Mode::Shared).await,
        soon(&one, &shared, Mode::Shared).await,
    ];
    let returned = soon(&one, &given, Mode::Exclusive).await;
    let elsewhere = soon(&two, &scope("elsewhere"), Mode::Exclusive).await;
    let refused = {
        let one = Arc::clone(&one);
        tokio::spawn(async move { one.acquire(&scope("elsewhere"), Mode::Exclusive).await.map(drop) })
    };
    waiters(&two, elsewhere.scope(), 1).await;
    let next = waits(&two, kept, Mode::Exclusive);
    waiters(&one, &kept, 1).await;
    let begin = Instant::now();
    let limit = Duration::from_millis(400);
    let shutdown = {
        let one = Arc::clone(&one);
        tokio::spawn(async move { one.shutdown(limit).await.expect("shut down") })
    };
    assert_eq!(refused.await.expect("no panic").expect_err("refused").kind(), ErrorKind::ShutDown);
    returned.release().await.expect("held to the end");
    let left = shutdown.await.expect("no panic").left;
    assert!(begin.elapsed() >= limit && begin.elapsed() < PATIENCE / 3);
    let mut left: Vec<_> = left.iter().map(|left| (left.scope, left.mode, left.leases)).collect();
    left.sort_by_key(|(scope, ..)| *scope);
    let mut expected = vec![(kept, Mode::Exclusive, 1), (shared, Mode::Shared, 2)];
    expected.sort_by_key(|(scope, ..)| *scope);
    assert_eq!(left, expected);
    for lease in leases {
        assert_eq!(lease.ensure_live().expect_err("lost").kind(), ErrorKind::Lost(LossReason::ShutDown));
        assert_eq!(lease.release().await.expect_err("lost").kind(), ErrorKind::Lost(LossReason::ShutDown));
    }
    next.await.expect("the other instance goes on").0.release().await.expect("held to the end");
    elsewhere.release().await.expect("held to the end");
    until!("its sessions end", server.sessions(&deployment.instance("one")).await == 0);
    let error = one.acquire(&kept, Mode::Shared).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::ShutDown);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acquire_that_races_a_shutdown_leaves_a_session() {
    let (deployment, server) = (Deployment::new(), Server::connect().await);
    for round in 0..12_u64 {
        let one = deployment.connect("one").await;
        let acquires: Vec<_> = (0..8)
            .map(|n| {
                let one = Arc::clone(&one);
                tokio::spawn(async move { one.acquire(&scope(&format!("subject {}", n % 3)), Mode::Exclusive).await })
            })
            .collect();
        tokio::time::sleep(Duration::from_micros(round * 150)).await;
        one.shutdown(Duration::from_millis(round % 3)).await.expect("shut down");
        for acquire in acquires {
            // Before, after or during: a lease that is not live, or a refusal.
            if let Ok(lease) = acquire.await.expect("no panic") {
                assert!(lease.ensure_live().is_err(), "live after the shutdown");
            }
        }
    }
    until!("no session is left", server.sessions(&deployment.namespace).await == 0);
}
