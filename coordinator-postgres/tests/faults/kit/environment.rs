//! The servers that `scripts/with-servers` gives, and a deployment of one's own on them.

pub(crate) use coordinator_testkit::unique;

use coordinator_postgres::{PostgresBuilder, PostgresCoordinator, Scope, tokio_postgres};
use tokio_postgres::{Client, NoTls};

pub(crate) fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: run under scripts/with-servers"))
}

pub(crate) fn url() -> String {
    variable("COORDINATOR_TEST_POSTGRES_URL")
}

pub(crate) fn admin_url() -> String {
    variable("COORDINATOR_TEST_POSTGRES_ADMIN_URL")
}

/// The same URL to another place.
pub(crate) fn at(url: &str, place: &str) -> String {
    let (before, rest) = url.split_once('@').expect("user@");
    let (_, after) = rest.split_once('/').expect("host/database");
    format!("{before}@{place}/{after}")
}

/// `host:port` of a URL.
pub(crate) fn place(url: &str) -> &str {
    let (_, rest) = url.split_once('@').expect("user@");
    rest.split_once('/').expect("host/database").0
}

pub(crate) fn port(url: &str) -> u16 {
    place(url).rsplit_once(':').expect("host:port").1.parse().expect("a port")
}

/// The same URL with a parameter.
pub(crate) fn with(url: &str, parameter: &str) -> String {
    format!("{url}{}{parameter}", if url.contains('?') { '&' } else { '?' })
}

pub(crate) fn builder(url: &str, namespace: &str) -> PostgresBuilder {
    PostgresCoordinator::builder(url).expect("a URL").namespace(namespace)
}

pub(crate) async fn coordinator(url: &str, namespace: &str) -> PostgresCoordinator {
    builder(url, namespace).connect().await.expect("the server is there")
}

pub(crate) fn scope(name: &str) -> Scope {
    Scope::new(name).expect("a valid name")
}

/// A plain connection, to look at the server or to stand for the store.
pub(crate) async fn client(url: &str) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("the server is there");
    drop(tokio::spawn(connection));
    client
}

/// The server's processes for the sessions of this instance.
pub(crate) async fn sessions(client: &Client, instance: &str) -> Vec<i32> {
    let sql = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'coordinator ________ ' || $1";
    let rows = client.query(sql, &[&instance]).await.expect("pg_stat_activity can be read");
    rows.iter().map(|row| row.get(0)).collect()
}

/// The server's process of the session that holds this instance's scopes: the one with the identity lock.
pub(crate) async fn primary(client: &Client, instance: &str) -> i32 {
    let sql = "SELECT pid FROM pg_stat_activity a WHERE application_name LIKE 'coordinator ________ ' || $1
        AND EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND locktype = 'advisory' AND granted)";
    let rows = client.query(sql, &[&instance]).await.expect("pg_stat_activity can be read");
    assert_eq!(rows.len(), 1, "the sessions of {instance} that hold");
    rows[0].get(0)
}
