//! `PostgresCoordinator` passes the conformance suite of a distributed backend.

#[path = "../support/framing.rs"]
mod framing;

#[path = "../support/server.rs"]
mod server;

use coordinator_postgres::tokio_postgres::{self, NoTls};
use coordinator_postgres::{Error, ErrorKind, PostgresCoordinator};
use coordinator_testkit::{Env, Framing, Harness, Server};
use server::Stop;
use std::process::ExitCode;
use std::time::Duration;

struct Postgres;

const URL: &str = "COORDINATOR_TEST_POSTGRES_URL";
const ADMIN_URL: &str = "COORDINATOR_TEST_POSTGRES_ADMIN_URL";
/// A few seconds instead of the half minute that suits production: the suite waits these bounds out.
const DEAD_PEER: Duration = Duration::from_secs(4);
const SILENCE: Duration = Duration::from_secs(3);

impl Harness for Postgres {
    type Coordinator = PostgresCoordinator;

    const SERVER_ENV: &'static [&'static str] = &[URL, ADMIN_URL];
    const ENDS_SESSIONS: bool = true;
    const RESTARTS: bool = true;

    async fn connect(&self, env: &Env) -> Result<PostgresCoordinator, Error> {
        let plain = format!("{}?sslmode=disable", env.var(URL)); // a link could not tell encrypted messages apart
        let url = if env.is_linked() { &plain } else { env.var(URL) };
        let builder = PostgresCoordinator::builder(url)?.namespace(env.namespace()).instance(env.instance());
        builder.dead_peer_timeout(DEAD_PEER).release_when_silent_for(SILENCE).connect().await
    }

    fn how_to_get_servers(&self) -> &'static str {
        "run the tests under scripts/with-servers"
    }

    fn crash_release(&self) -> Duration {
        Duration::from_millis(500)
    }

    /// A waiting session's own settings, and a slice.
    fn waiter_release(&self) -> Duration {
        Duration::from_secs(8)
    }

    /// Nine tenths of the earliest moment at which the server could give the session up.
    fn deadline(&self) -> Option<Duration> {
        Some(Duration::from_millis(1_800))
    }

    fn silent_release(&self) -> Option<Duration> {
        Some(SILENCE + Duration::from_millis(500))
    }

    fn framing(&self) -> Framing {
        framing::POSTGRES
    }

    async fn end_sessions(&self, env: &Env) -> Result<(), Error> {
        let unavailable = |error| Error::with_source(ErrorKind::Unavailable, "end_sessions", "not ended", error);
        let (client, connection) = tokio_postgres::connect(env.var(ADMIN_URL), NoTls).await.map_err(unavailable)?;
        tokio::spawn(connection);
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name LIKE 'coordinator %' AND application_name LIKE '% ' || $1";
        client.query(sql, &[&env.instance()]).await.map(drop).map_err(unavailable)
    }

    async fn start_server(&self, _: &Env) -> Result<Box<dyn Server>, Error> {
        Ok(Box::new(Own(server::Server::start().await)))
    }
}

/// A server of one case.
struct Own(server::Server);

#[async_trait::async_trait]
impl Server for Own {
    fn vars(&self) -> Vec<(String, String)> {
        vec![(URL.into(), self.0.url()), (ADMIN_URL.into(), self.0.url())]
    }

    async fn kill(&mut self) {
        self.0.stop(Stop::Immediate);
    }

    async fn start_again(&mut self) {
        self.0.start_again().await;
    }
}

fn main() -> ExitCode {
    coordinator_testkit::main(Postgres)
}
