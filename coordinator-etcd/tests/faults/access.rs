//! A cluster that knows users.

use crate::support::cluster::Cluster;
use crate::support::{Deployment, EXPIRY, scope, soon, waiters, waits};
use coordinator_etcd::etcd_client::{Client, Permission};
use coordinator_etcd::{ErasureCoordinator, ErrorKind, EtcdCoordinator, Mode};
use coordinator_testkit::{PATIENCE, within};
use std::sync::Arc;
use std::time::Duration;

/// With tokens that end after two seconds, and a user who may use the keys of that namespace.
async fn guarded() -> (Cluster, Deployment, Client) {
    let cluster = Cluster::start_with(1, "http", &["--auth-token-ttl=2".into()]).await;
    let deployment = Deployment::at(cluster.endpoints());
    let root = Box::pin(cluster.client()).await.expect("connected");
    let mut access = root.auth_client();
    access.role_add("lock").await.expect("added");
    let keys = Permission::read_write(format!("{}/", deployment.namespace)).with_prefix();
    access.role_grant_permission("lock", keys).await.expect("granted");
    for (name, role) in [("root", "root"), ("app", "lock"), ("stranger", "")] {
        access.user_add(name, "secret", None).await.expect("added");
        if !role.is_empty() {
            access.user_grant_role(name, role).await.expect("granted");
        }
    }
    access.auth_enable().await.expect("enabled");
    (cluster, deployment, root)
}

async fn connect(deployment: &Deployment, name: &str) -> Arc<EtcdCoordinator> {
    Arc::new(deployment.builder(name).user("app", "secret").connect().await.expect("connected"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_holds_and_waits_for_longer_than_its_token_lives() {
    let (_cluster, deployment, _) = Box::pin(guarded()).await;
    let (one, two) = (connect(&deployment, "one").await, connect(&deployment, "two").await);
    let lease = soon(&one, &scope("s"), Mode::Exclusive).await;
    let waiting = waits(&two, scope("s"), Mode::Exclusive);
    waiters(&one, &scope("s"), 1).await;
    tokio::time::sleep(EXPIRY).await;
    lease.verify(Duration::from_secs(1)).await.expect("held");
    lease.fence().await.expect("held");
    lease.release().await.expect("held to the end");
    let next = within(PATIENCE, "the waiter is served", waiting).await.expect("no panic");
    tokio::time::sleep(EXPIRY).await;
    let again = waits(&one, scope("s"), Mode::Shared);
    waiters(&two, &scope("s"), 1).await;
    next.release().await.expect("held to the end");
    drop(within(PATIENCE, "the waiter is served", again).await.expect("no panic"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_the_servers_users_disturbs_nobody() {
    let (cluster, deployment, _) = Box::pin(guarded()).await;
    let one = connect(&deployment, "one").await;
    let options = coordinator_etcd::etcd_client::ConnectOptions::new().with_user("root", "secret");
    let root = Box::pin(Client::connect([cluster.endpoint(0)], Some(options))).await.expect("connected");
    let held = soon(&one, &scope("held"), Mode::Exclusive).await;
    for round in 0..5 {
        root.auth_client().user_add(format!("user {round}"), "x", None).await.expect("added");
        soon(&one, &scope("s"), Mode::Exclusive).await.release().await.expect("held to the end");
        held.verify(Duration::from_secs(1)).await.expect("held");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_not_admitted_is_told_what_to_do() {
    let (_cluster, deployment, _) = Box::pin(guarded()).await;
    for (user, says) in [
        (None, "give its name and password"),
        (Some(("app", "wrong")), "check name and password"),
        (Some(("stranger", "secret")), "read and write the keys"),
    ] {
        let mut builder = deployment.builder("x");
        if let Some((name, password)) = user {
            builder = builder.user(name, password);
        }
        let error = builder.connect().await.expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error:?}");
        assert!(error.to_string().contains(says), "{error}");
        assert!(!format!("{error:?}").contains("wrong"));
    }
    let one = connect(&deployment, "one").await;
    assert!(one.inspect(&scope("s")).await.expect("an answer").is_free());
}
