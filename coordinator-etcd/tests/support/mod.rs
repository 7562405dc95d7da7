//! What the tests share: clusters, instances of a namespace of their own, the server as an operator sees it.
#![allow(dead_code, reason = "each test target uses a part")]

pub(crate) mod cluster;

use coordinator_etcd::etcd_client::{Client, GetOptions};
use coordinator_etcd::{ErasureCoordinator, ErasureCoordinatorExt, EtcdBuilder, EtcdCoordinator, Lease, Mode, Scope};
use coordinator_testkit::{PATIENCE, unique, until};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// The smallest: tests wait it out.
pub(crate) const TTL: Duration = Duration::from_secs(5);
/// From the last renewal until the server has given the scopes of an instance away (E1).
pub(crate) const EXPIRY: Duration = Duration::from_millis(6_500);

/// The cluster that tests share, and none of them breaks.
pub(crate) fn shared() -> String {
    std::env::var("COORDINATOR_TEST_ETCD_URL")
        .expect("COORDINATOR_TEST_ETCD_URL is not set: run under scripts/with-servers")
}

/// Instances that exclude each other, and nobody else.
pub(crate) struct Deployment {
    pub(crate) endpoints: String,
    pub(crate) namespace: String,
}

impl Deployment {
    pub(crate) fn new() -> Self {
        Self::at(shared())
    }

    pub(crate) fn at(endpoints: String) -> Self {
        Self { endpoints, namespace: unique("test") }
    }

    pub(crate) fn builder(&self, name: &str) -> EtcdBuilder {
        let builder = EtcdCoordinator::builder(&self.endpoints).expect("endpoints");
        builder.namespace(&self.namespace).instance(name).ttl(TTL)
    }

    pub(crate) async fn connect(&self, name: &str) -> Arc<EtcdCoordinator> {
        Arc::new(self.builder(name).connect().await.expect("connected"))
    }

    pub(crate) async fn operator(&self) -> Operator {
        let client = Box::pin(Client::connect(self.endpoints.split(',').collect::<Vec<_>>(), None)).await;
        Operator { client: client.expect("connected"), namespace: self.namespace.clone() }
    }
}

/// Who looks at the server, and breaks what instances have there.
pub(crate) struct Operator {
    pub(crate) client: Client,
    namespace: String,
}

impl Operator {
    /// The keys of the namespace with that beginning.
    pub(crate) async fn keys(&self, beginning: &str) -> Vec<String> {
        let prefix = format!("{}/{beginning}", self.namespace);
        let found =
            self.client.kv_client().get(prefix, Some(GetOptions::new().with_prefix())).await.expect("an answer");
        found.kvs().iter().map(|key| key.key_str().expect("text").to_owned()).collect()
    }

    /// The leases at the server whose instance has that name.
    pub(crate) async fn leases(&self, instance: &str) -> Vec<i64> {
        let prefix = format!("{}/sessions/", self.namespace);
        let found =
            self.client.kv_client().get(prefix, Some(GetOptions::new().with_prefix())).await.expect("an answer");
        let own = found.kvs().iter().filter(|key| key.value() == instance.as_bytes());
        own.map(coordinator_etcd::etcd_client::KeyValue::lease).collect()
    }

    pub(crate) async fn revoke(&self, instance: &str) {
        for lease in self.leases(instance).await {
            self.client.lease_client().revoke(lease).await.expect("revoked");
        }
    }

    pub(crate) async fn delete(&self, key: &str) {
        self.client.kv_client().delete(key, None).await.expect("deleted");
    }
}

pub(crate) fn scope(name: &str) -> Scope {
    Scope::new(name).expect("a valid name")
}

/// The lease, by then at the latest.
pub(crate) async fn soon(coordinator: &EtcdCoordinator, scope: &Scope, mode: Mode) -> Lease {
    let lease = coordinator.acquire_within(scope, mode, PATIENCE).await.expect("no failure");
    lease.unwrap_or_else(|| panic!("{} does not get {scope} {mode}", coordinator.instance()))
}

/// Takes the scope on a task of its own.
pub(crate) fn waits(coordinator: &Arc<EtcdCoordinator>, scope: Scope, mode: Mode) -> JoinHandle<Lease> {
    let coordinator = Arc::clone(coordinator);
    tokio::spawn(async move { coordinator.acquire(&scope, mode).await.expect("no failure") })
}

/// Waits until the server knows that this many instances wait for the scope.
pub(crate) async fn waiters(coordinator: &EtcdCoordinator, scope: &Scope, count: usize) {
    until(PATIENCE, "they wait", async || {
        coordinator.inspect(scope).await.is_ok_and(|found| found.waiters.len() == count)
    })
    .await;
}
