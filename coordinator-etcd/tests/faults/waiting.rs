//! What happens to the line while instances stand in it.

use crate::support::cluster::Cluster;
use crate::support::{Deployment, EXPIRY, scope, soon, waiters, waits};
use coordinator_etcd::etcd_client::CompactionOptions;
use coordinator_etcd::{ErasureCoordinator, Mode};
use coordinator_testkit::{PATIENCE, until, within};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(1);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compaction_while_one_waits_is_not_noticed() {
    let cluster = Cluster::start(1).await;
    let (deployment, scope) = (Deployment::at(cluster.endpoints()), scope("s"));
    let (holder, next) = (deployment.connect("holder").await, deployment.connect("next").await);
    let operator = deployment.operator().await;
    for _ in 0..3 {
        let lease = soon(&holder, &scope, Mode::Exclusive).await;
        let waiting = waits(&next, scope, Mode::Exclusive);
        waiters(&holder, &scope, 1).await;
        for round in 0..50 {
            operator.client.kv_client().put("other", round.to_string(), None).await.expect("put");
        }
        let found = operator.client.kv_client().get("other", None).await.expect("an answer");
        let revision = found.header().expect("a header").revision();
        let options = CompactionOptions::new().with_physical();
        operator.client.kv_client().compact(revision, Some(options)).await.expect("compacted");
        lease.release().await.expect("held to the end");
        drop(within(SOON, "the waiter is served", waiting).await.expect("no panic"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_lease_ends_at_the_server_stands_in_line_anew_and_is_never_granted_the_old_place() {
    let (deployment, scope) = (Deployment::new(), scope("s"));
    let (holder, next) = (deployment.connect("holder").await, deployment.connect("next").await);
    let (third, operator) = (deployment.connect("third").await, deployment.operator().await);
    let lease = soon(&holder, &scope, Mode::Exclusive).await;
    let waiting = waits(&next, scope, Mode::Exclusive);
    waiters(&holder, &scope, 1).await;
    let behind = waits(&third, scope, Mode::Exclusive);
    waiters(&holder, &scope, 2).await;
    let before = operator.keys("locks/").await;
    operator.revoke("next").await;
    until(PATIENCE, "it stands in line anew", async || {
        let now = operator.keys("locks/").await;
        now.len() == 3 && now != before
    })
    .await;
    assert!(!waiting.is_finished() && !behind.is_finished());
    lease.release().await.expect("held to the end");
    let third = within(SOON, "who stood behind it is first now", behind).await.expect("no panic");
    assert!(!waiting.is_finished());
    third.release().await.expect("held to the end");
    let next = within(SOON, "it is served in its turn", waiting).await.expect("no panic");
    next.verify(Duration::ZERO).await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_key_is_deleted_stands_in_line_anew() {
    let (deployment, scope) = (Deployment::new(), scope("s"));
    let (holder, next) = (deployment.connect("holder").await, deployment.connect("next").await);
    let operator = deployment.operator().await;
    let lease = soon(&holder, &scope, Mode::Shared).await;
    let waiting = waits(&next, scope, Mode::Exclusive);
    waiters(&holder, &scope, 1).await;
    let key = operator.keys("locks/").await.into_iter().find(|key| key.contains("/x/")).expect("the waiter's");
    operator.delete(&key).await;
    lease.release().await.expect("held to the end");
    let next = within(PATIENCE, "the waiter is served", waiting).await.expect("no panic");
    next.verify(Duration::ZERO).await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_longer_than_every_time_to_live_is_served_at_once() {
    let (deployment, scope) = (Deployment::new(), scope("s"));
    let (holder, next) = (deployment.connect("holder").await, deployment.connect("next").await);
    let lease = soon(&holder, &scope, Mode::Exclusive).await;
    let waiting = waits(&next, scope, Mode::Exclusive);
    tokio::time::sleep(2 * EXPIRY).await;
    lease.release().await.expect("held to the end");
    let next = within(SOON, "the waiter is served", waiting).await.expect("no panic");
    next.verify(Duration::ZERO).await.expect("held");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shared_waiter_waits_for_the_last_exclusive_one_before_it_only() {
    let (deployment, scope) = (Deployment::new(), scope("s"));
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    let (three, four) = (deployment.connect("three").await, deployment.connect("four").await);
    let first = soon(&one, &scope, Mode::Exclusive).await;
    let second = waits(&two, scope, Mode::Shared);
    waiters(&one, &scope, 1).await;
    let third = waits(&three, scope, Mode::Shared);
    waiters(&one, &scope, 2).await;
    let last = waits(&four, scope, Mode::Exclusive);
    waiters(&one, &scope, 3).await;
    first.release().await.expect("held to the end");
    let second = within(SOON, "both shared ones are served", second).await.expect("no panic");
    let third = within(SOON, "both shared ones are served", third).await.expect("no panic");
    assert!(!last.is_finished());
    // In the order in which nobody watches: the waiter stands behind the other one.
    second.release().await.expect("held to the end");
    third.release().await.expect("held to the end");
    drop(within(SOON, "the exclusive one is served", last).await.expect("no panic"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_sees_who_holds_and_who_waits() {
    let (deployment, scope) = (Deployment::new(), scope("s"));
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    let three = deployment.connect("three").await;
    let lease = soon(&one, &scope, Mode::Shared).await;
    let waiting = waits(&two, scope, Mode::Exclusive);
    waiters(&one, &scope, 1).await;
    let behind = waits(&three, scope, Mode::Shared);
    waiters(&one, &scope, 2).await;
    let found = three.inspect(&scope).await.expect("an answer");
    let names = |parties: &[coordinator_etcd::Party]| {
        parties.iter().map(|party| (party.instance.clone(), party.mode)).collect::<Vec<_>>()
    };
    assert_eq!(names(&found.holders), [("one".to_owned(), Some(Mode::Shared))]);
    let expected = [("two".to_owned(), Some(Mode::Exclusive)), ("three".to_owned(), Some(Mode::Shared))];
    assert_eq!(names(&found.waiters), expected);
    drop(lease);
    drop(waiting.await.expect("no panic"));
    drop(behind.await.expect("no panic"));
}
