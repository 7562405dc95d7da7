use std::{
    env,
    time::{Duration, Instant},
};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls};

/// A database of a test's own, dropped at its end.
pub(crate) struct Database {
    runtime: Runtime,
    server: String,
    name: String,
    pub(crate) url: String,
}

impl Database {
    /// A fresh one on the server that the tests were given.
    pub(crate) fn create() -> Self {
        let server = env::var("COORDINATOR_TEST_POSTGRES_URL")
            .unwrap_or_else(|_| panic!("no COORDINATOR_TEST_POSTGRES_URL: run the tests under `scripts/with-servers`"));
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let name = format!("drill_test_{:016x}", rand::random::<u64>());
        let url = with_database(&server, &name);
        let database = Self { runtime, server, name, url };
        database.on(&database.server, async |client| {
            client.batch_execute(&format!("CREATE DATABASE {}", database.name)).await.expect("created");
        });
        database
    }

    /// How many schemas of drills it has.
    pub(crate) fn schemas(&self) -> i64 {
        self.count("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'coordinator\\_drill\\_%'")
    }

    /// Waits for the sessions of instances and their locks to go, or to come.
    pub(crate) fn wait_for_sessions(&self, wanted: fn(i64) -> bool) {
        let begin = Instant::now();
        loop {
            let sessions = self.count(
                "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND application_name LIKE 'coordinator\\_drill\\_%'",
            );
            if wanted(sessions) {
                return;
            }
            assert!(begin.elapsed() < Duration::from_secs(30), "there are {sessions} sessions");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn count(&self, sql: &str) -> i64 {
        self.on(&self.url, async |client| client.query_one(sql, &[]).await.expect("counted").get(0))
    }

    fn on<T>(&self, url: &str, work: impl AsyncFnOnce(Client) -> T) -> T {
        self.runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the server answers");
            let driving = tokio::spawn(connection);
            let value = work(client).await;
            driving.await.expect("no panic").expect("an end in good order");
            value
        })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        self.on(&self.server, async |client| {
            if let Err(error) = client.batch_execute(&drop).await {
                eprintln!("a test database is left: {error}");
            }
        });
    }
}

/// The URL with another database; its parameters stay.
fn with_database(url: &str, database: &str) -> String {
    let (base, parameters) = url.split_once('?').map_or((url, None), |(base, rest)| (base, Some(rest)));
    let authority = base.find("://").map_or(0, |at| at + 3);
    let end = base[authority..].find('/').map_or(base.len(), |at| authority + at);
    let parameters = parameters.map(|parameters| format!("?{parameters}")).unwrap_or_default();
    format!("{}/{database}{parameters}", &base[..end])
}

#[test]
fn only_the_database_of_a_url_is_replaced() {
    for (url, replaced) in [
        ("postgres://u@h:1/a?x=/y", "postgres://u@h:1/b?x=/y"),
        ("postgres://u@h:1", "postgres://u@h:1/b"),
        ("postgres://u@h/", "postgres://u@h/b"),
    ] {
        assert_eq!(with_database(url, "b"), replaced);
    }
}
