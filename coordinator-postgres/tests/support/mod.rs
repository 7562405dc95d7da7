//! What the tests share: the server, names of their own, waiting for a promise.
#![allow(dead_code, unused_imports, unused_macros, reason = "each test target uses a part")]

pub(crate) mod server;

use coordinator_postgres::tokio_postgres::{self, Client, NoTls};
use coordinator_postgres::{
    ErasureCoordinator, ErasureCoordinatorExt, Lease, Mode, PostgresBuilder, PostgresCoordinator, Scope,
};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longer than anything here takes; who waits for it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run under scripts/with-servers"))
}

/// As a role without privileges.
pub(crate) fn url() -> String {
    variable("COORDINATOR_TEST_POSTGRES_URL")
}

pub(crate) fn random() -> String {
    format!("{:016x}", getrandom::u64().expect("a random number"))
}

/// Instances that exclude each other, and nobody else.
#[derive(Clone)]
pub(crate) struct Deployment {
    url: String,
    pub(crate) namespace: String,
}

impl Deployment {
    pub(crate) fn new() -> Self {
        Self::at(url())
    }

    pub(crate) fn at(url: String) -> Self {
        Self { url, namespace: random() }
    }

    /// The same one, in another process.
    pub(crate) fn named(namespace: String) -> Self {
        Self { url: url(), namespace }
    }

    pub(crate) fn builder(&self, name: &str) -> PostgresBuilder {
        let builder = PostgresCoordinator::builder(&self.url).expect("a URL");
        builder.namespace(&self.namespace).instance(self.instance(name))
    }

    pub(crate) async fn connect(&self, name: &str) -> Arc<PostgresCoordinator> {
        Arc::new(self.builder(name).connect().await.expect("connected"))
    }

    /// A name that no other test's instance has.
    pub(crate) fn instance(&self, name: &str) -> String {
        format!("{name}-{}", self.namespace)
    }

    /// The real key of a scope, derived as the documentation says.
    pub(crate) fn key(&self, scope: &Scope) -> i64 {
        let mut digest = Sha256::new();
        digest.update((self.namespace.len() as u64).to_be_bytes());
        digest.update(&self.namespace);
        digest.update(scope.digest());
        i64::from_be_bytes(*digest.finalize().first_chunk().expect("32 bytes"))
    }
}

/// A plain client; its connection runs until it is dropped.
pub(crate) async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connected");
    tokio::spawn(connection);
    client
}

/// The server as its superuser sees it.
pub(crate) struct Server(pub(crate) Client);

impl Server {
    pub(crate) async fn connect() -> Self {
        Self(client(&variable("COORDINATOR_TEST_POSTGRES_ADMIN_URL")).await)
    }

    /// How many sessions instances have whose names end so.
    pub(crate) async fn sessions(&self, ending: &str) -> i64 {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'coordinator %' || $1";
        self.0.query_one(sql, &[&ending]).await.expect("an answer").get(0)
    }

    /// How many advisory locks these sessions hold or wait for, beside the one by which each primary is known.
    pub(crate) async fn locks(&self, ending: &str, primaries: i64) -> i64 {
        let sql = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
            WHERE locktype = 'advisory' AND application_name LIKE 'coordinator %' || $1";
        self.0.query_one(sql, &[&ending]).await.expect("an answer").get::<_, i64>(0) - primaries
    }

    /// The sessions that hold a key, or wait for it.
    pub(crate) async fn pids(&self, key: i64, granted: bool) -> Vec<i32> {
        let sql = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted = $2
            AND (classid::bigint << 32) | objid::bigint = $1";
        let rows = self.0.query(sql, &[&key, &granted]).await.expect("an answer");
        rows.iter().map(|row| row.get(0)).collect()
    }

    pub(crate) async fn terminate(&self, pid: i32) {
        let ended: bool = self.0.query_one("SELECT pg_terminate_backend($1)", &[&pid]).await.expect("an answer").get(0);
        assert!(ended);
    }
}

/// Waits until `$seen`, which is asked again and again.
macro_rules! until {
    ($what:expr, $seen:expr) => {{
        let begin = std::time::Instant::now();
        while !$seen {
            $crate::support::patient(begin, &$what);
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        $crate::support::since(begin)
    }};
}
pub(crate) use until;

pub(crate) fn since(begin: Instant) -> Duration {
    begin.elapsed()
}

#[track_caller]
pub(crate) fn patient(begin: Instant, what: &impl std::fmt::Display) {
    assert!(begin.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
}

pub(crate) fn scope(name: &str) -> Scope {
    Scope::new(name).expect("a valid name")
}

/// The lease, by then at the latest.
pub(crate) async fn soon(coordinator: &PostgresCoordinator, scope: &Scope, mode: Mode) -> Lease {
    let lease = coordinator.acquire_within(scope, mode, PATIENCE).await.expect("no failure");
    lease.unwrap_or_else(|| panic!("{} does not get {scope} {mode}", coordinator.instance()))
}

/// Takes the scope on a task of its own; resolves with the lease, and when it was got.
pub(crate) fn waits(
    coordinator: &Arc<PostgresCoordinator>,
    scope: Scope,
    mode: Mode,
) -> tokio::task::JoinHandle<(Lease, Instant)> {
    let coordinator = Arc::clone(coordinator);
    tokio::spawn(async move { (soon(&coordinator, &scope, mode).await, Instant::now()) })
}

/// Takes the scope on a task of its own, and releases it at once.
pub(crate) fn passes(coordinator: &Arc<PostgresCoordinator>, scope: Scope, mode: Mode) -> tokio::task::JoinHandle<()> {
    let coordinator = Arc::clone(coordinator);
    tokio::spawn(async move { soon(&coordinator, &scope, mode).await.release().await.expect("held to the end") })
}

/// Waits until the server knows that this many sessions wait for the scope.
pub(crate) async fn waiters(coordinator: &PostgresCoordinator, scope: &Scope, count: usize) {
    until!(format!("{count} wait"), coordinator.inspect(scope).await.expect("an answer").waiters.len() == count);
}
