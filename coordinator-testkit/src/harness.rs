use crate::{Env, Framing};
use coordinator_core::{ErasureCoordinator, Error, ErrorKind};
use std::time::Duration;

/// How far a backend's locks reach.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reach {
    /// One coordinator excludes its own callers, and nobody else.
    Process,
    /// Coordinators of one host exclude each other; `is_distributed()` is false.
    Host,
    /// Every coordinator beside the same server; `is_distributed()` is true.
    Network,
}

/// What a backend's author writes: how to connect, and what the backend promises.
///
/// Only [`connect`](Self::connect) has to be written. Every promise has a default; state the backend's own, the cases
/// hold it to them. A promise that a backend does not make (`None`, or a constant that is `false`) takes its cases out:
/// they are listed as `not_applicable::…`, never silently left out.
pub trait Harness: Send + Sync + 'static {
    /// The coordinator under test.
    type Coordinator: ErasureCoordinator + 'static;

    /// The variables that name the backend's servers; a case fails where one is not set.
    ///
    /// The kit puts its own links before each `host:port` that their URLs name.
    const SERVER_ENV: &'static [&'static str] = &[];

    /// Connects an instance. Instances of one [`Env::namespace`] exclude each other, and those of two do not.
    ///
    /// Called in this process and in others; everything that it needs comes from `env`. Use settings under which the
    /// promises below are short: the suite waits them out.
    fn connect(&self, env: &Env) -> impl Future<Output = Result<Self::Coordinator, Error>> + Send;

    /// How to get the servers that [`SERVER_ENV`](Self::SERVER_ENV) names; told where one is missing.
    fn how_to_get_servers(&self) -> &'static str {
        "start a server for tests and set the variable to its URL"
    }

    /// How far its locks reach.
    fn reach(&self) -> Reach {
        Reach::Network
    }

    /// From `SIGKILL` of a holder to the next grant, at most.
    fn crash_release(&self) -> Duration {
        Duration::from_secs(5)
    }

    /// From the moment at which a waiter is killed, frozen or cut off until it is in nobody's way, at most.
    fn waiter_release(&self) -> Duration {
        self.crash_release()
    }

    /// D: from the moment at which a holder's link falls silent until the loss is told, at most. `None`: its leases
    /// live on no server, so there is no link.
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// From the moment at which a holder is frozen, or its link falls silent, to the next grant, at most. `None`: a
    /// silent holder keeps its scopes until it is dead.
    fn silent_release(&self) -> Option<Duration> {
        None
    }

    /// From the end of a session at the server until its holder is told, over a healthy link, at most: for so long two
    /// may believe.
    fn notice(&self) -> Duration {
        Duration::from_millis(500)
    }

    /// How long one waits for a scope that 64 tasks of eight processes want at the same time, at most.
    fn longest_wait(&self) -> Duration {
        Duration::from_secs(10)
    }

    /// Whether instances are served in the order in which they came.
    fn is_fifo(&self) -> bool {
        false
    }

    /// How the backend's messages are told apart on the wire.
    fn framing(&self) -> Framing {
        Framing::Reads
    }

    /// Whether [`end_sessions`](Self::end_sessions) is written.
    const ENDS_SESSIONS: bool = false;

    /// Ends, at the server and over a connection of its own, what the leases of the instance that is called
    /// [`Env::instance`] live on: terminates its sessions, revokes its server-side lease.
    fn end_sessions(&self, env: &Env) -> impl Future<Output = Result<(), Error>> + Send {
        async { Err(not_written(env, "end_sessions")) }
    }

    /// Whether [`start_server`](Self::start_server) is written.
    const RESTARTS: bool = false;

    /// Starts a server for one case alone, that the case stops and starts again.
    fn start_server(&self, env: &Env) -> impl Future<Output = Result<Box<dyn Server>, Error>> + Send {
        async { Err(not_written(env, "start_server")) }
    }
}

fn not_written(env: &Env, what: &'static str) -> Error {
    Error::new(ErrorKind::Invalid, what, format!("the harness of {} says that it is written", env.instance()))
}

/// A server of one case; dropping it ends the server and removes what it wrote.
#[async_trait::async_trait]
pub trait Server: Send {
    /// What [`Harness::SERVER_ENV`] is to be for who uses this server.
    fn vars(&self) -> Vec<(String, String)>;

    /// Ends the server as `kill -9` or a power cut would, keeping what it wrote durably.
    async fn kill(&mut self);

    /// Starts it again at the same address; returns once it answers.
    async fn start_again(&mut self);
}
