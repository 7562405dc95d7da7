//! `RedisCoordinator` passes the conformance suite of a distributed backend.

#[path = "../support/framing.rs"]
mod framing;

#[path = "../support/server.rs"]
mod server;

use coordinator_redis::{Error, ErrorKind, RedisCoordinator};
use coordinator_testkit::{Env, Framing, Harness, Server};
use server::DURABLE;
use std::process::ExitCode;
use std::time::Duration;

struct Redis;

const URL: &str = "COORDINATOR_TEST_REDIS_URL";
/// A few seconds instead of the half minute that suits production: the suite waits these bounds out.
const TIME_TO_LIVE: Duration = Duration::from_secs(3);
const HEARTBEAT: Duration = Duration::from_millis(500);
/// How late a timer and a round trip may be on a busy machine.
const LATE: Duration = Duration::from_millis(500);

impl Harness for Redis {
    type Coordinator = RedisCoordinator;

    const SERVER_ENV: &'static [&'static str] = &[URL];
    const ENDS_SESSIONS: bool = true;
    const RESTARTS: bool = true;

    async fn connect(&self, env: &Env) -> Result<RedisCoordinator, Error> {
        let builder = RedisCoordinator::builder(env.var(URL))?.namespace(env.namespace()).instance(env.instance());
        builder.time_to_live(TIME_TO_LIVE).connect_timeout(Duration::from_secs(2)).connect().await
    }

    fn how_to_get_servers(&self) -> &'static str {
        "run the tests under scripts/with-servers"
    }

    fn crash_release(&self) -> Duration {
        TIME_TO_LIVE + LATE
    }

    /// Half the time to live without a renewal, and who waits behind it looks as often.
    fn waiter_release(&self) -> Duration {
        TIME_TO_LIVE / 2 + LATE
    }

    fn deadline(&self) -> Option<Duration> {
        Some(TIME_TO_LIVE * 9 / 10)
    }

    /// Where only the answers stop, one more heartbeat arrives and renews.
    fn silent_release(&self) -> Option<Duration> {
        Some(TIME_TO_LIVE + HEARTBEAT + LATE)
    }

    fn notice(&self) -> Duration {
        HEARTBEAT + LATE
    }

    fn is_fifo(&self) -> bool {
        true
    }

    fn framing(&self) -> Framing {
        framing::RESP
    }

    async fn end_sessions(&self, env: &Env) -> Result<(), Error> {
        let ended = end_session(env.var(URL), env.instance()).await;
        ended.map_err(|error| Error::with_source(ErrorKind::Unavailable, "end_sessions", "not ended", error))
    }

    async fn start_server(&self, _: &Env) -> Result<Box<dyn Server>, Error> {
        Ok(Box::new(Own(server::Server::start(DURABLE).await)))
    }
}

/// Removes the key of the instance's session.
async fn end_session(url: &str, instance: &str) -> redis::RedisResult<()> {
    let mut client = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    let mut cursor = 0_u64;
    loop {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg("coordinator:*:i:*").arg("COUNT").arg(1000);
        let (next, keys): (u64, Vec<String>) = scan.query_async(&mut client).await?;
        for key in keys {
            let value: Option<String> = redis::cmd("GET").arg(&key).query_async(&mut client).await?;
            if value.is_some_and(|value| value.splitn(3, ' ').nth(2) == Some(instance)) {
                return redis::cmd("DEL").arg(&key).query_async(&mut client).await;
            }
        }
        cursor = next;
        if cursor == 0 {
            return Ok(());
        }
    }
}

/// A server of one case.
struct Own(server::Server);

#[async_trait::async_trait]
impl Server for Own {
    fn vars(&self) -> Vec<(String, String)> {
        vec![(URL.into(), self.0.url())]
    }

    async fn kill(&mut self) {
        self.0.kill();
    }

    async fn start_again(&mut self) {
        self.0.start_again().await;
    }
}

fn main() -> ExitCode {
    coordinator_testkit::main(Redis)
}
