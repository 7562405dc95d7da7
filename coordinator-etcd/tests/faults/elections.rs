//! Members of the cluster that die, freeze and come back.

use crate::support::cluster::Cluster;
use crate::support::{Deployment, EXPIRY, TTL, scope, soon, waiters, waits};
use coordinator_etcd::{ErasureCoordinator, ErrorKind, LossReason, Mode};
use coordinator_testkit::{PATIENCE, measured, until, within};
use std::time::{Duration, Instant};

/// Longer than a lease lives that is not renewed.
async fn outlive_a_ttl() {
    tokio::time::sleep(EXPIRY + Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_loses_no_renewed_lease_and_disturbs_no_waiter() {
    let mut cluster = Cluster::start(3).await;
    let (deployment, scope) = (Deployment::at(cluster.endpoints()), scope("s"));
    let (holder, next) = (deployment.connect("holder").await, deployment.connect("next").await);
    let lease = soon(&holder, &scope, Mode::Exclusive).await;
    let waiting = waits(&next, scope, Mode::Exclusive);
    waiters(&holder, &scope, 1).await;
    let leader = cluster.leader().await;
    cluster.kill(leader);
    outlive_a_ttl().await;
    lease.ensure_live().expect("renewed");
    lease.verify(Duration::from_secs(1)).await.expect("held");
    assert!(!waiting.is_finished());
    lease.release().await.expect("held to the end");
    let next = within(PATIENCE, "the waiter is served", waiting).await.expect("no panic");
    next.release().await.expect("held to the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_member_may_die_in_turn_while_leases_are_held_taken_and_waited_for() {
    let mut cluster = Cluster::start(3).await;
    let deployment = Deployment::at(cluster.endpoints());
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    let held = soon(&one, &scope("held"), Mode::Exclusive).await;
    for member in 0..3 {
        cluster.kill(member);
        let begin = Instant::now();
        for coordinator in [&one, &two] {
            until(PATIENCE, "a scope is to be had", async || {
                match coordinator.acquire(&scope("s"), Mode::Exclusive).await {
                    Ok(lease) => lease.release().await.is_ok(),
                    Err(error) => {
                        assert!(error.is_retryable(), "{error:?}");
                        false
                    }
                }
            })
            .await;
        }
        measured("a member is killed: until both instances had a scope", &mut [begin.elapsed()]);
        let lease = soon(&one, &scope("w"), Mode::Exclusive).await;
        let waiting = waits(&two, scope("w"), Mode::Shared);
        waiters(&one, &scope("w"), 1).await;
        lease.release().await.expect("held to the end");
        drop(within(PATIENCE, "the waiter is served", waiting).await.expect("no panic"));
        cluster.start_again(member);
        cluster.is_complete().await;
    }
    held.verify(Duration::from_secs(1)).await.expect("held all the time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_member_is_not_waited_for() {
    let cluster = Cluster::start(3).await;
    let deployment = Deployment::at(cluster.endpoints());
    let (holder, other) = (deployment.connect("holder").await, deployment.connect("other").await);
    for member in 0..3 {
        let held = soon(&holder, &scope("held"), Mode::Exclusive).await;
        let is_leader = cluster.leader().await == member;
        cluster.freeze(member);
        let begin = Instant::now();
        for coordinator in [&holder, &other] {
            soon(coordinator, &scope("s"), Mode::Exclusive).await.release().await.expect("held to the end");
        }
        measured("a member is frozen: until both instances had a scope", &mut [begin.elapsed()]);
        outlive_a_ttl().await;
        held.verify(Duration::from_secs(1)).await.expect("renewed");
        cluster.thaw(member);
        cluster.is_complete().await;
        // A leader that wakes may still revoke what ended by its clock (etcd-io/etcd issue 15247): then that is told.
        let outcome = held.release().await;
        assert!(outcome.is_ok() || is_leader && outcome.is_err_and(|error| error.is_lost()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_majority_the_loss_is_told_by_the_own_clock_and_afterwards_leases_are_had_again() {
    let mut cluster = Cluster::start(3).await;
    let (deployment, scope) = (Deployment::at(cluster.endpoints()), scope("s"));
    let (holder, waiter) = (deployment.connect("holder").await, deployment.connect("waiter").await);
    let lease = soon(&holder, &scope, Mode::Exclusive).await;
    let waiting = {
        let waiter = std::sync::Arc::clone(&waiter);
        tokio::spawn(async move { waiter.acquire(&scope, Mode::Exclusive).await })
    };
    waiters(&holder, &scope, 1).await;
    for member in [0, 1] {
        cluster.kill(member);
    }
    let begin = Instant::now();
    // A leader without followers renews leases until it notices, two election time-outs at most; who follows it extends
    // them by as much.
    let reason = within(TTL + Duration::from_secs(2), "the loss is told", lease.lost()).await;
    measured("the majority is killed: until the loss was told", &mut [begin.elapsed()]);
    assert_eq!(reason, LossReason::DeadlinePassed);
    assert_eq!(lease.release().await.expect_err("lost").kind(), ErrorKind::Lost(LossReason::DeadlinePassed));
    // E2: whoever waited gets an error or waits on, never the scope.
    if let Ok(answer) = tokio::time::timeout(Duration::from_secs(12), waiting).await {
        let error = answer.expect("no panic").expect_err("nobody could grant it");
        assert!(error.is_retryable(), "{error:?}");
    }
    for member in [0, 1] {
        cluster.start_again(member);
    }
    cluster.is_complete().await;
    for coordinator in [&holder, &waiter] {
        soon(coordinator, &scope, Mode::Exclusive).await.release().await.expect("held to the end");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_outlives_the_restart_of_an_only_server() {
    let mut cluster = Cluster::start(1).await;
    let (deployment, scope) = (Deployment::at(cluster.endpoints()), scope("s"));
    let (holder, next) = (deployment.connect("holder").await, deployment.connect("next").await);
    let lease = soon(&holder, &scope, Mode::Exclusive).await;
    let waiting = waits(&next, scope, Mode::Exclusive);
    waiters(&holder, &scope, 1).await;
    let before = lease.fence().await.expect("held");
    cluster.kill(0);
    cluster.start_again(0);
    cluster.answers().await;
    outlive_a_ttl().await;
    assert!(lease.fence().await.expect("still held") > before);
    assert!(!waiting.is_finished());
    lease.release().await.expect("held to the end");
    drop(within(PATIENCE, "the waiter is served", waiting).await.expect("no panic"));
}
