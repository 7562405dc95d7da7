//! `PostgresCoordinator` passes the conformance suite of a distributed backend.

#[path = "../support/framing.rs"]
mod framing;

use coordinator_postgres::{Error, PostgresCoordinator};
use coordinator_testkit::{Env, Framing, Harness};
use std::process::ExitCode;
use std::time::Duration;

struct Postgres;

const URL: &str = "COORDINATOR_TEST_POSTGRES_URL";

impl Harness for Postgres {
    type Coordinator = PostgresCoordinator;

    const SERVER_ENV: &'static [&'static str] = &[URL];

    async fn connect(&self, env: &Env) -> Result<PostgresCoordinator, Error> {
        let plain = format!("{}?sslmode=disable", env.var(URL)); // a link could not tell encrypted messages apart
        let url = if env.is_linked() { &plain } else { env.var(URL) };
        let builder = PostgresCoordinator::builder(url)?.namespace(env.namespace()).instance(env.instance());
        // A few seconds instead of the half minute that suits production: the suite waits these bounds out.
        let builder = builder.dead_peer_timeout(Duration::from_secs(4)).release_when_silent_for(Duration::from_secs(3));
        builder.connect().await
    }

    fn how_to_get_servers(&self) -> &'static str {
        "run the tests under scripts/with-servers"
    }

    fn crash_release(&self) -> Duration {
        Duration::from_millis(500)
    }

    fn framing(&self) -> Framing {
        framing::POSTGRES
    }
}

fn main() -> ExitCode {
    coordinator_testkit::main(Postgres)
}
