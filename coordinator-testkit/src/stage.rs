//! What a case works with.

use crate::faults::Link;
use crate::history::{Allowed, Recorder};
use crate::process::Process;
use crate::{Env, Framing, Handle, Harness, Reach, Server};
use async_trait::async_trait;
use coordinator_core::Error;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A harness whose types are forgotten, so that the cases are compiled once.
#[async_trait]
pub(crate) trait Backend: Send + Sync + fmt::Debug {
    fn promises(&self) -> &Promises;
    async fn connect(&self, env: &Env) -> Result<Handle, Error>;
    async fn end_sessions(&self, env: &Env) -> Result<(), Error>;
    async fn start_server(&self, env: &Env) -> Result<Box<dyn Server>, Error>;
}

/// What a harness states.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promises {
    pub(crate) server_env: &'static [&'static str],
    pub(crate) how_to_get_servers: &'static str,
    pub(crate) reach: Reach,
    pub(crate) crash_release: Duration,
    pub(crate) waiter_release: Duration,
    pub(crate) deadline: Option<Duration>,
    pub(crate) silent_release: Option<Duration>,
    pub(crate) notice: Duration,
    pub(crate) longest_wait: Duration,
    pub(crate) is_fifo: bool,
    pub(crate) framing: Framing,
    pub(crate) ends_sessions: bool,
    pub(crate) restarts: bool,
}

struct Erased<H> {
    harness: H,
    promises: Promises,
}

pub(crate) fn erased<H: Harness>(harness: H) -> Arc<dyn Backend> {
    let promises = Promises {
        server_env: H::SERVER_ENV,
        how_to_get_servers: harness.how_to_get_servers(),
        reach: harness.reach(),
        crash_release: harness.crash_release(),
        waiter_release: harness.waiter_release(),
        deadline: harness.deadline(),
        silent_release: harness.silent_release(),
        notice: harness.notice(),
        longest_wait: harness.longest_wait(),
        is_fifo: harness.is_fifo(),
        framing: harness.framing(),
        ends_sessions: H::ENDS_SESSIONS,
        restarts: H::RESTARTS,
    };
    Arc::new(Erased { harness, promises })
}

#[async_trait]
impl<H: Harness> Backend for Erased<H> {
    fn promises(&self) -> &Promises {
        &self.promises
    }

    async fn connect(&self, env: &Env) -> Result<Handle, Error> {
        Ok(Arc::new(self.harness.connect(env).await?))
    }

    async fn end_sessions(&self, env: &Env) -> Result<(), Error> {
        self.harness.end_sessions(env).await
    }

    async fn start_server(&self, env: &Env) -> Result<Box<dyn Server>, Error> {
        self.harness.start_server(env).await
    }
}

impl<H> fmt::Debug for Erased<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.promises.fmt(f)
    }
}

/// One case's namespace, and the instances, processes, links and servers that it asks for.
#[derive(Clone)]
pub(crate) struct Stage {
    backend: Arc<dyn Backend>,
    env: Env,
    recorder: Arc<Recorder>,
    allowed: Arc<OnceLock<Allowed>>,
}

impl Stage {
    pub(crate) fn new(case: &str, backend: Arc<dyn Backend>, env: Env) -> Self {
        Self { backend, env, recorder: Arc::new(Recorder::new(case)), allowed: Arc::default() }
    }

    pub(crate) fn promises(&self) -> &Promises {
        self.backend.promises()
    }

    /// Where another instance lives.
    pub(crate) fn env(&self) -> Env {
        self.env.another()
    }

    /// An instance in this process.
    pub(crate) async fn connect(&self) -> Handle {
        self.connect_in(&self.env()).await
    }

    pub(crate) async fn connect_in(&self, env: &Env) -> Handle {
        let connected = self.backend.connect(env).await;
        connected.unwrap_or_else(|error| panic!("the harness did not connect: {error:?}"))
    }

    /// An instance in a process of its own; connected when this returns.
    pub(crate) async fn process(&self) -> Process {
        self.process_in(&self.env()).await
    }

    pub(crate) async fn process_in(&self, env: &Env) -> Process {
        Process::start(env, &self.recorder).await
    }

    /// Two may believe at the same time for that long, in this case.
    pub(crate) fn allow_overlap(&self, overlap: Duration) {
        let _ = self.allowed.set(Allowed::overlap(overlap)); // the first stays
    }

    /// What the case records beside what its processes do.
    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Holds only if what the processes did and were told is what a lock allows.
    pub(crate) fn check_history(&self) {
        self.recorder.check(&self.allowed.get().copied().unwrap_or_default());
    }

    /// A way to the servers that can be cut, silenced and slowed.
    pub(crate) async fn link(&self) -> Link {
        Link::to(self.env.vars(), self.promises().framing).await
    }

    /// Where another instance lives, behind that link.
    pub(crate) fn behind(&self, link: &Link) -> Env {
        self.env().with(link.vars(), true)
    }

    /// Ends, at the server, what the leases of that instance live on.
    pub(crate) async fn end_sessions(&self, env: &Env) {
        self.backend.end_sessions(env).await.expect("the harness ends sessions");
    }

    /// A server of this case alone.
    pub(crate) async fn server(&self) -> Box<dyn Server> {
        self.backend.start_server(&self.env()).await.expect("the harness starts a server")
    }

    /// Where another instance lives, beside that server.
    pub(crate) fn beside(&self, server: &dyn Server) -> Env {
        self.env().with(server.vars(), false)
    }
}
