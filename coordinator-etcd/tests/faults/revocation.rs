//! A holder that is asked to give up hears it, in whatever instance it is.

use crate::support::{Deployment, scope, soon};
use coordinator_etcd::{DigestKey, ErasureCoordinator, ErasureCoordinatorExt, LossReason, Mode};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_holder_is_told_and_the_scope_stays_its_own_until_it_leaves() {
    let (deployment, scope, other) = (Deployment::new(), scope("subject"), scope("other"));
    let (holder, operator) = (deployment.connect("holder").await, deployment.connect("operator").await);
    for mode in [Mode::Exclusive, Mode::Shared] {
        let lease = soon(&holder, &scope, mode).await;
        let bystander = soon(&holder, &other, mode).await;
        operator.revoke(&scope).await.expect("asked");
        let told = tokio::time::timeout(SOON, lease.lost()).await.expect("told");
        assert_eq!(told, LossReason::Revoked);
        bystander.verify(Duration::ZERO).await.expect("not revoked");
        assert!(operator.try_acquire(&scope, Mode::Exclusive).await.expect("an answer").is_none());
        drop(lease);
        let next = operator.acquire_within(&scope, Mode::Exclusive, SOON).await.expect("an answer").expect("free");
        next.verify(Duration::ZERO).await.expect("held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_takes_the_scope_afterwards_is_not_meant() {
    let (deployment, scope) = (Deployment::new(), scope("subject"));
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    for round in 0..20 {
        let (asks, next) = if round % 2 == 0 { (&one, &two) } else { (&two, &one) };
        asks.revoke(&scope).await.expect("asked");
        let lease = soon(next, &scope, Mode::Exclusive).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        lease.release().await.expect("not revoked");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_instance_may_ask_itself_and_hears_it_also_after_its_session_was_replaced() {
    let (deployment, scope) = (Deployment::new(), scope("subject"));
    let (own, operator) = (deployment.connect("own").await, deployment.operator().await);
    for _ in 0..2 {
        let lease = soon(&own, &scope, Mode::Exclusive).await;
        own.revoke(&scope).await.expect("asked");
        assert_eq!(tokio::time::timeout(SOON, lease.lost()).await.expect("told"), LossReason::Revoked);
        drop(lease);
        let lease = soon(&own, &scope, Mode::Exclusive).await;
        operator.revoke("own").await;
        assert_eq!(tokio::time::timeout(SOON, lease.lost()).await.expect("told"), LossReason::NotHeld);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_notice_names_the_scope_as_the_deployments_key_hides_it() {
    let (deployment, scope) = (Deployment::new(), scope("subject"));
    let key = || DigestKey::new(&[7; 32]).expect("long enough");
    let keyed = async |name| deployment.builder(name).digest_key(key()).connect().await.expect("connected");
    let (holder, operator) = (keyed("holder").await, keyed("operator").await);
    let stranger = deployment.connect("stranger").await;
    let lease = holder.acquire(&scope, Mode::Exclusive).await.expect("free");
    stranger.revoke(&scope).await.expect("asked");
    operator.revoke(&scope).await.expect("asked"); // heard after the stranger's, had that been heard
    assert_eq!(tokio::time::timeout(SOON, lease.lost()).await.expect("told"), LossReason::Revoked);
    drop(lease);
    let again = soon(&holder, &scope, Mode::Exclusive).await;
    stranger.revoke(&scope).await.expect("asked");
    operator.revoke(&crate::support::scope("marker")).await.expect("asked");
    again.verify(Duration::ZERO).await.expect("the stranger's keys are others");
}
