//! Effects of a holder that others have followed are refused at their sink.

use crate::support::{Deployment, scope, soon};
use coordinator_etcd::etcd_client::{Client, Compare, Txn, TxnOp};
use coordinator_etcd::{ErrorKind, EtcdCoordinator, FencingGate, Mode};

async fn write(client: &Client, guard: &Compare, key: &str) -> bool {
    let txn = Txn::new().when([guard.clone()]).and_then([TxnOp::put(key, "written", None)]);
    client.kv_client().txn(txn).await.expect("an answer").succeeded()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guarded_write_happens_while_the_scope_is_held_and_never_afterwards() {
    let (deployment, scope) = (Deployment::new(), scope("s"));
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    let (operator, key) = (deployment.operator().await, format!("{}/item", deployment.namespace));
    for mode in [Mode::Exclusive, Mode::Shared] {
        let lease = soon(&one, &scope, mode).await;
        let guard = one.guard(&lease).expect("held");
        assert!(write(&operator.client, &guard, &key).await);
        lease.fence().await.expect("held");
        assert!(write(&operator.client, &guard, &key).await, "a token does not end the guard");
        lease.release().await.expect("held to the end");
        assert!(!write(&operator.client, &guard, &key).await, "released");
        let next = soon(&two, &scope, mode).await;
        assert!(!write(&operator.client, &guard, &key).await, "another holds it");
        assert!(write(&operator.client, &two.guard(&next).expect("held"), &key).await);
        next.release().await.expect("held to the end");
    }
    operator.delete(&key).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_lease_the_server_ended_has_the_smaller_token_and_no_guard() {
    let (deployment, scope) = (Deployment::new(), scope("s"));
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    let operator = deployment.operator().await;
    let (lease, key) = (soon(&one, &scope, Mode::Exclusive).await, format!("{}/item", deployment.namespace));
    let (stale, guard) = (lease.fence().await.expect("held"), one.guard(&lease).expect("held"));
    operator.revoke("one").await;
    let next = soon(&two, &scope, Mode::Exclusive).await;
    let mut sink = FencingGate::default();
    assert!(sink.admit(Mode::Exclusive, next.fence().await.expect("held")));
    assert!(!sink.admit(Mode::Exclusive, stale));
    assert!(!write(&operator.client, &guard, &key).await);
    lease.lost().await;
    assert!(one.guard(&lease).expect_err("lost").is_lost());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_of_another_coordinator_is_not_guarded() {
    let deployment = Deployment::new();
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    let lease = soon(&one, &scope("s"), Mode::Exclusive).await;
    assert_eq!(two.guard(&lease).expect_err("not its own").kind(), ErrorKind::Invalid);
    let epochs = deployment.builder("late").fence_epoch(1).connect().await.expect("connected");
    let before = lease.fence().await.expect("held");
    lease.release().await.expect("held to the end");
    let late: &EtcdCoordinator = &epochs;
    assert!(
        soon(late, &scope("s"), Mode::Exclusive).await.fence().await.expect("held").get() > before.get() + (1 << 47)
    );
}
