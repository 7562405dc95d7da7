//! Every key has an end (E10), and so has every lease.

use crate::support::{Deployment, EXPIRY, Operator, scope, soon};
use coordinator_etcd::{ErasureCoordinator, ErasureCoordinatorExt, LossReason, Mode};
use coordinator_testkit::{PATIENCE, until, within};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

async fn is_empty(operator: &Operator, beginning: &str) {
    until(PATIENCE, "nothing is left", async || operator.keys(beginning).await.is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_is_left_by_a_scope() {
    let deployment = Deployment::new();
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    let operator = deployment.operator().await;
    let mut tasks = JoinSet::new();
    for task in 0..50_u64 {
        let coordinator = Arc::clone(if task % 2 == 0 { &one } else { &two });
        tasks.spawn(async move {
            for round in 0..20_u64 {
                let scope = scope(&format!("scope {}", (task + round) % 40));
                let mode = if (task + round) % 3 == 0 { Mode::Exclusive } else { Mode::Shared };
                let limit = Duration::from_millis(task % 7 + 1);
                let lease = coordinator.acquire_within(&scope, mode, limit).await.expect("no failure");
                if let Some(lease) = lease
                    && round % 5 == 0
                {
                    lease.fence().await.expect("held");
                    lease.release().await.expect("held to the end");
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic");
    }
    is_empty(&operator, "locks/").await;
    assert_eq!(operator.keys("").await.len(), 2, "one key for each instance");
    one.shutdown(PATIENCE).await.expect("shut down");
    assert!(operator.leases("one").await.is_empty(), "the lease is revoked when this returns");
    drop(two);
    is_empty(&operator, "").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_renews_what_is_released_or_lost() {
    let (deployment, scope) = (Deployment::new(), scope("s"));
    let (holder, operator) = (deployment.connect("holder").await, deployment.operator().await);
    let leases = operator.leases("holder").await;
    for round in 0..50 {
        let lease = soon(&holder, &scope, Mode::Exclusive).await;
        if round % 2 == 0 { drop(lease) } else { lease.release().await.expect("held to the end") }
    }
    is_empty(&operator, "locks/").await;
    assert_eq!(operator.leases("holder").await, leases, "one lease for all of them");
    let held = soon(&holder, &scope, Mode::Exclusive).await;
    operator.revoke("holder").await;
    let reason = within(Duration::from_millis(500), "the loss is told", held.lost()).await;
    assert_eq!(reason, LossReason::NotHeld);
    assert!(held.release().await.expect_err("lost").is_lost());
    soon(&holder, &scope, Mode::Exclusive).await.release().await.expect("held to the end");
    let renewed = operator.leases("holder").await;
    assert!(renewed.len() == 1 && renewed != leases, "a lease that is made anew: {renewed:?}");
    assert!(operator.client.lease_client().time_to_live(leases[0], None).await.expect("an answer").ttl() < 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connect_that_is_dropped_leaves_nothing() {
    let deployment = Deployment::new();
    let operator = deployment.operator().await;
    for step in 0..30 {
        let limit = Duration::from_millis(step);
        let _ = tokio::time::timeout(limit, deployment.builder("dropped").connect()).await;
    }
    tokio::time::timeout(EXPIRY + PATIENCE, is_empty(&operator, "")).await.expect("nothing is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_of_what_somebody_deleted_says_so_and_the_instance_goes_on() {
    let (deployment, scope) = (Deployment::new(), scope("s"));
    let (holder, operator) = (deployment.connect("holder").await, deployment.operator().await);
    for verified in [true, false] {
        let lease = soon(&holder, &scope, Mode::Exclusive).await;
        for key in operator.keys("locks/").await {
            operator.delete(&key).await;
        }
        if verified {
            assert!(lease.verify(Duration::ZERO).await.expect_err("not held").is_lost());
            assert!(lease.fence().await.expect_err("not held").is_lost());
        }
        assert!(lease.release().await.expect_err("not held").is_lost());
    }
    soon(&holder, &scope, Mode::Exclusive).await.release().await.expect("held to the end");
}
