//! The store beside the lock: its pool, its schema changes, its writes.

use crate::support::{Deployment, Server, client, passes, patient, random, scope, soon, url, waiters, waits};
use coordinator_postgres::deadpool_postgres::{Config, Pool, PoolConfig, Runtime};
use coordinator_postgres::tokio_postgres::NoTls;
use coordinator_postgres::{Error, ErrorKind, Mode, PostgresBuilder, PostgresCoordinator, Scope, under_lock};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

fn config(connections: usize, application: &str) -> Config {
    let mut config = Config::new();
    config.url = Some(url());
    config.application_name = Some(application.to_owned());
    config.pool = Some(PoolConfig::new(connections));
    config
}

fn pool(config: &Config) -> Pool {
    config.create_pool(Some(Runtime::Tokio1), NoTls).expect("a pool")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_is_built_concurrently_while_peers_wait_for_the_builders_scope() {
    // A database of its own: the build waits for the snapshots of everybody in it.
    let server = Server::connect().await;
    let database = format!("index_{}", random());
    server.0.batch_execute(&format!("CREATE DATABASE {database} OWNER coordinator")).await.expect("created");
    let (before, _) =
        url().rsplit_once('/').map(|(before, after)| (before.to_owned(), after.len())).expect("a database");
    let url = format!("{before}/{database}");
    {
        let deployment = Deployment::at(url.clone());
        let (scope, one) = (scope("migration"), deployment.connect("one").await);
        let held = soon(&one, &scope, Mode::Exclusive).await;
        let mut peers = Vec::new();
        for name in ["two", "three", "four"] {
            let peer = deployment.connect(name).await;
            peers.push(passes(&peer, scope, Mode::Exclusive));
        }
        waiters(&one, &scope, 3).await;
        let store = client(&url).await;
        store.batch_execute("CREATE TABLE items AS SELECT generate_series(1, 1000) AS n").await.expect("created");
        let begin = Instant::now();
        let built = store.batch_execute("CREATE INDEX CONCURRENTLY items_n ON items (n)");
        tokio::time::timeout(Duration::from_secs(15), built).await.expect("it does not hang").expect("no deadlock");
        println!("built in {:?}", begin.elapsed());
        held.verify(Duration::from_secs(1)).await.expect("still held");
        held.release().await.expect("held to the end");
        for peer in peers {
            peer.await.expect("served");
        }
    }
    server.0.batch_execute(&format!("DROP DATABASE {database} WITH (FORCE)")).await.expect("dropped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_waiters_than_connections_are_served_while_the_holder_needs_the_pool() {
    let (deployment, scope) = (Deployment::new(), scope("subject"));
    let instances = [deployment.connect("one").await, deployment.connect("two").await];
    let pool = pool(&config(2, &deployment.instance("store")));
    let busy = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for task in 0..40 {
        let (instance, pool, busy) = (Arc::clone(&instances[task % 2]), pool.clone(), Arc::clone(&busy));
        tasks.spawn(async move {
            under_lock(&*instance, &scope, Mode::Exclusive, async |lease| {
                let store = pool.get().await.expect("a connection of the store");
                assert!(!busy.swap(true, Ordering::SeqCst));
                store.query_one("SELECT pg_sleep(0.005)", &[]).await.expect("done");
                busy.store(false, Ordering::SeqCst);
                lease.ensure_live()
            })
            .await
        });
    }
    let all = async {
        while let Some(done) = tasks.join_next().await {
            done.expect("no panic").expect("no failure");
        }
    };
    tokio::time::timeout(Duration::from_secs(20), all).await.expect("everybody is served");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_session_of_the_stores_pool_ever_holds_a_lock() {
    let (deployment, server) = (Deployment::new(), Server::connect().await);
    let application = deployment.instance("store");
    let config = config(3, &application);
    let pool = pool(&config);
    let connect = |name: &str| {
        let builder = PostgresBuilder::from_deadpool(&config).expect("complete").namespace(&deployment.namespace);
        builder.instance(deployment.instance(name)).connect()
    };
    let (one, two) = (Arc::new(connect("one").await.expect("connected")), connect("two").await.expect("connected"));
    let locks = async || {
        let sql = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
            WHERE application_name = $1 AND locktype = 'advisory'";
        server.0.query_one(sql, &[&application]).await.expect("an answer").get::<_, i64>(0)
    };
    let (taken, other) = (pool.get().await.expect("a connection"), pool.get().await.expect("a connection"));
    for round in 0..20 {
        let scope = scope(&format!("subject {round}"));
        let held = soon(&two, &scope, Mode::Exclusive).await;
        let waiter = waits(&one, scope, Mode::Exclusive);
        waiters(&two, &scope, 1).await;
        assert_eq!(locks().await, 0);
        held.release().await.expect("held to the end");
        let (lease, _) = waiter.await.expect("served");
        assert_eq!(locks().await, 0);
        if round % 2 == 0 {
            drop(lease);
        } else {
            lease.release().await.expect("held to the end");
        }
        assert_eq!(locks().await, 0);
    }
    drop((taken, other));
    assert_eq!(pool.status().size, 2, "the coordinator took none");
    let store = pool.get().await.expect("a connection");
    assert!(one.same_database(&**store).await.expect("an answer"), "the pool's own database");
    assert_eq!(locks().await, 0);
}

/// A subject whose items are sealed under generations of its key; erasing destroys a generation and what is under it.
struct Plane {
    table: String,
    pool: Pool,
    generation: AtomicI64,
}

impl Plane {
    async fn ingest(&self) {
        let store = self.pool.get().await.expect("a connection");
        let key = self.generation.load(Ordering::SeqCst);
        store.query_one("SELECT pg_sleep(0.001)", &[]).await.expect("sealed");
        store.execute(&format!("INSERT INTO {} VALUES ($1)", self.table), &[&key]).await.expect("written");
    }

    async fn erase(self: &Arc<Self>) {
        let store = self.pool.get().await.expect("a connection");
        let key = self.generation.load(Ordering::SeqCst);
        store.execute(&format!("DELETE FROM {} WHERE key <= $1", self.table), &[&key]).await.expect("deleted");
        tokio::time::sleep(Duration::from_millis(2)).await; // a key service's latency
        self.generation.fetch_max(key + 1, Ordering::SeqCst);
    }

    async fn survivors(&self) -> i64 {
        let key = self.generation.load(Ordering::SeqCst);
        let sql = format!("SELECT count(*) FROM {} WHERE key < $1", self.table);
        self.pool.get().await.expect("a connection").query_one(&sql, &[&key]).await.expect("an answer").get(0)
    }
}

async fn races(instances: Option<&[Arc<PostgresCoordinator>; 2]>, scope: Scope) -> i64 {
    let plane = Arc::new(Plane {
        table: format!("items_{}", random()),
        pool: pool(&config(6, "store")),
        generation: AtomicI64::new(0),
    });
    let store = pool(&config(1, "store")).get().await.expect("a connection");
    store.batch_execute(&format!("CREATE TABLE {} (key bigint)", plane.table)).await.expect("created");
    let mut tasks = JoinSet::new();
    for task in 0..4 {
        let plane = Arc::clone(&plane);
        let instance = instances.map(|instances| Arc::clone(&instances[task % 2]));
        let mode = if task == 0 { Mode::Exclusive } else { Mode::Shared };
        tasks.spawn(async move {
            for _ in 0..60 {
                let work = async {
                    match mode {
                        Mode::Exclusive => plane.erase().await,
                        Mode::Shared => plane.ingest().await,
                    }
                };
                match &instance {
                    None => work.await,
                    Some(instance) => {
                        let done = under_lock(&**instance, &scope, mode, async |_| {
                            work.await;
                            Ok::<_, Error>(())
                        });
                        done.await.expect("no failure");
                    }
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic");
    }
    let survivors = plane.survivors().await;
    store.batch_execute(&format!("DROP TABLE {}", plane.table)).await.expect("dropped");
    survivors
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_item_survives_under_a_destroyed_key() {
    let (deployment, scope) = (Deployment::new(), scope("subject"));
    // Without the lock the race is lost now and then, else this would prove nothing.
    let (mut unprotected, begin) = (0, Instant::now());
    while unprotected == 0 {
        patient(begin, &"an item survives without the lock");
        unprotected = races(None, scope).await;
    }
    let instances = [deployment.connect("one").await, deployment.connect("two").await];
    assert_eq!(races(Some(&instances), scope).await, 0);
    println!("{unprotected} survived without the lock");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_incomplete_pool_configuration_is_refused() {
    let error = PostgresBuilder::from_deadpool(&Config::new()).expect_err("no database");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
