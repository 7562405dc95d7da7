//! `ToyCoordinator` passes the conformance suite of a distributed backend.

use coordinator_testkit::faults::Side;
use coordinator_testkit::{Env, Framing, Harness, Suite};
use coordinator_toy::{Error, ErrorKind, Server, ToyCoordinator, end_sessions};
use std::process::ExitCode;
use std::time::Duration;

const SERVER: &str = "TOY_TEST_SERVER";
/// Short: the suite waits it out.
const SILENCE: Duration = Duration::from_secs(2);

struct Toy;

impl Harness for Toy {
    type Coordinator = ToyCoordinator;

    const SERVER_ENV: &'static [&'static str] = &[SERVER];
    const ENDS_SESSIONS: bool = true;

    async fn connect(&self, env: &Env) -> Result<ToyCoordinator, Error> {
        ToyCoordinator::connect(env.var(SERVER), env.namespace(), env.instance()).await
    }

    /// The kernel closes the connection of a process that is killed.
    fn crash_release(&self) -> Duration {
        Duration::from_millis(500)
    }

    /// A waiter that is frozen is granted the lock all the same, and keeps it until its silence is noticed.
    fn waiter_release(&self) -> Duration {
        SILENCE + Duration::from_millis(500)
    }

    fn deadline(&self) -> Option<Duration> {
        Some(SILENCE * 9 / 10)
    }

    fn silent_release(&self) -> Option<Duration> {
        Some(SILENCE + Duration::from_millis(500))
    }

    fn is_fifo(&self) -> bool {
        true
    }

    fn framing(&self) -> Framing {
        Framing::Lengths(line)
    }

    async fn end_sessions(&self, env: &Env) -> Result<(), Error> {
        let failed = |source| Error::with_source(ErrorKind::Unavailable, "end_sessions", "not ended", source);
        end_sessions(env.var(SERVER), env.instance()).await.map_err(failed)
    }
}

/// A message is a line.
fn line(bytes: &[u8], _: Side, _: bool) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1)
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let server = runtime.block_on(Server::start(SILENCE)).expect("a free port");
    Suite::new(Toy).var(SERVER, server.address()).main()
}
