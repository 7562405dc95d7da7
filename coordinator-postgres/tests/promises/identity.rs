//! Which database the locks are in, and who shares them.

use crate::support::server;
use crate::support::{Deployment, Server, client, scope, soon, url, variable};
use coordinator_postgres::{DigestKey, ErasureCoordinator, Mode};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_in_the_same_database_is_told_from_others() {
    let (deployment, server) = (Deployment::new(), Server::connect().await);
    let one = deployment.connect("one").await;
    let mut store = client(&url()).await;
    assert!(one.same_database(&store).await.expect("an answer"));
    let transaction = store.transaction().await.expect("begun");
    assert!(one.same_database(&transaction).await.expect("an answer"));
    drop(transaction);
    // Another database of the same server.
    let (admin, _) = variable("COORDINATOR_TEST_POSTGRES_ADMIN_URL")
        .rsplit_once('/')
        .map(|(before, after)| (before.to_owned(), after.len()))
        .expect("a database");
    let other = client(&format!("{admin}/postgres")).await;
    assert!(!one.same_database(&other).await.expect("an answer"));
    // Another server.
    let another = server::Server::start().await;
    assert!(!one.same_database(&another.client().await).await.expect("an answer"));
    // After the primary was lost it is judged anew.
    let held = soon(&one, &scope("subject"), Mode::Exclusive).await;
    server.terminate(server.pids(deployment.key(held.scope()), true).await[0]).await;
    held.lost().await;
    assert!(one.same_database(&store).await.expect("an answer"));
    assert_eq!(one.scopes(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_connection_of_the_store_is_an_error() {
    let deployment = Deployment::new();
    let (one, store) = (deployment.connect("one").await, client(&url()).await);
    let _ = store.execute("SELECT pg_terminate_backend(pg_backend_pid())", &[]).await.expect_err("ended");
    assert!(one.same_database(&store).await.expect_err("it can't be asked").is_retryable());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_and_digest_keys_separate_deployments() {
    let (a, b, scope) = (Deployment::new(), Deployment::new(), scope("subject"));
    let key = |n| DigestKey::new(&[n; 32]).expect("long enough");
    let builders = [
        a.builder("plain"),
        b.builder("plain"),
        a.builder("keyed").digest_key(key(1)),
        a.builder("keyed").digest_key(key(2)),
    ];
    let mut leases = Vec::new();
    for builder in builders {
        let instance = builder.connect().await.expect("connected");
        let lease = instance.try_acquire(&scope, Mode::Exclusive).await.expect("an answer");
        leases.push(lease.expect("another deployment's lock"));
        assert_eq!(instance.inspect(&scope).await.expect("an answer").holders.len(), 1);
    }
    // The same key: the same lock.
    let instance = a.builder("keyed").digest_key(key(2)).connect().await.expect("connected");
    assert!(instance.try_acquire(&scope, Mode::Shared).await.expect("an answer").is_none());
    // A lease still names what its caller named.
    assert!(leases.iter().all(|lease| *lease.scope() == scope));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_distributed_by_its_type() {
    let one = Deployment::new().connect("one").await;
    assert!(one.is_distributed());
    let _proof: coordinator_postgres::Distributed = one.into();
}
