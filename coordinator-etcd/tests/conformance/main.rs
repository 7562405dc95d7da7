//! `EtcdCoordinator` passes the conformance suite of a distributed backend.

#[path = "../support/cluster.rs"]
mod cluster;

#[path = "../support/framing.rs"]
mod framing;

use cluster::Cluster;
use coordinator_etcd::etcd_client::{Client, GetOptions};
use coordinator_etcd::{Error, ErrorKind, EtcdCoordinator};
use coordinator_testkit::{Env, Framing, Harness, Server};
use std::process::ExitCode;
use std::time::Duration;

struct Etcd;

const URL: &str = "COORDINATOR_TEST_ETCD_URL";
/// The smallest instead of the half minute that suits production: the suite waits it out.
const TTL: Duration = Duration::from_secs(5);

impl Harness for Etcd {
    type Coordinator = EtcdCoordinator;

    const SERVER_ENV: &'static [&'static str] = &[URL];
    const ENDS_SESSIONS: bool = true;
    const RESTARTS: bool = true;

    async fn connect(&self, env: &Env) -> Result<EtcdCoordinator, Error> {
        let builder = EtcdCoordinator::builder(env.var(URL))?.namespace(env.namespace()).instance(env.instance());
        builder.ttl(TTL).connect().await
    }

    fn how_to_get_servers(&self) -> &'static str {
        "run the tests under scripts/with-servers"
    }

    /// The server looks for leases that have ended twice a second, and revokes them like any request (E1).
    fn crash_release(&self) -> Duration {
        TTL + Duration::from_millis(1_500)
    }

    /// Nine tenths of the TTL.
    fn deadline(&self) -> Option<Duration> {
        Some(TTL * 9 / 10)
    }

    fn silent_release(&self) -> Option<Duration> {
        Some(self.crash_release())
    }

    fn is_fifo(&self) -> bool {
        true
    }

    fn framing(&self) -> Framing {
        framing::HTTP2
    }

    async fn end_sessions(&self, env: &Env) -> Result<(), Error> {
        revoke_leases(env).await.map_err(|error| {
            Error::with_source(ErrorKind::Unavailable, "end_sessions", "the leases were not revoked", error)
        })
    }

    async fn start_server(&self, _: &Env) -> Result<Box<dyn Server>, Error> {
        Ok(Box::new(Own(Cluster::start(1).await)))
    }
}

async fn revoke_leases(env: &Env) -> Result<(), coordinator_etcd::etcd_client::Error> {
    let client = Client::connect(env.var(URL).split(',').collect::<Vec<_>>(), None).await?;
    let sessions = format!("{}/sessions/", env.namespace());
    let found = client.kv_client().get(sessions, Some(GetOptions::new().with_prefix())).await?;
    for session in found.kvs().iter().filter(|session| session.value() == env.instance().as_bytes()) {
        client.lease_client().revoke(session.lease()).await?;
    }
    Ok(())
}

/// A server of one case.
struct Own(Cluster);

#[async_trait::async_trait]
impl Server for Own {
    fn vars(&self) -> Vec<(String, String)> {
        vec![(URL.into(), self.0.endpoints())]
    }

    async fn kill(&mut self) {
        self.0.kill(0);
    }

    async fn start_again(&mut self) {
        self.0.start_again(0);
        self.0.answers().await;
    }
}

fn main() -> ExitCode {
    coordinator_testkit::main(Etcd)
}
