//! The cases, each a promise by its name, and what a backend must promise or offer for a case to apply to it.

mod contention;
mod contract;
mod crash;
mod ends;
mod fencing;
mod network;
mod pause;
mod rivals;
mod truth;
mod wire;

use crate::Reach;
use crate::stage::{Promises, Stage};
use futures_util::future::LocalBoxFuture;

pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) needs: &'static [Need],
    pub(crate) run: Box<dyn FnOnce(Stage) -> LocalBoxFuture<'static, ()> + Send>,
}

/// Without this a case has nothing to test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// Locks that exclude other processes.
    Processes,
    /// Locks that exclude other hosts.
    Network,
    /// A server, with a link to it that can be cut.
    Link,
    /// A bound on belief across a silent link.
    Deadline,
    /// A silent holder is replaced while it lives.
    SilentRelease,
    /// The harness can end sessions at the server.
    EndedSessions,
    /// The harness can start a server of one's own.
    OwnServer,
    /// Instances are served in the order in which they came.
    Fifo,
}

impl Case {
    /// Why this backend has nothing that the case could test.
    pub(crate) fn is_not_applicable(&self, promises: &Promises) -> Option<String> {
        let missing = self.needs.iter().find(|need| !need.is_met(promises))?;
        let why = match missing {
            Need::Processes => "the backend says that its locks reach no other process",
            Need::Network => "the backend says that its locks reach no other host",
            Need::Link => "the harness names no server that a link could lead to",
            Need::Deadline => "the backend's leases have no deadline",
            Need::SilentRelease => "a silent holder keeps its scopes until it is dead",
            Need::EndedSessions => "the harness can't end sessions at the server",
            Need::OwnServer => "the harness can't start a server of its own",
            Need::Fifo => "the backend does not promise an order",
        };
        Some(format!("not applicable: {why}"))
    }
}

impl Need {
    fn is_met(self, promises: &Promises) -> bool {
        match self {
            Self::Processes => promises.reach >= Reach::Host,
            Self::Network => promises.reach == Reach::Network,
            Self::Link => !promises.server_env.is_empty(),
            Self::Deadline => promises.deadline.is_some(),
            Self::SilentRelease => promises.silent_release.is_some(),
            Self::EndedSessions => promises.ends_sessions,
            Self::OwnServer => promises.restarts,
            Self::Fifo => promises.is_fifo,
        }
    }
}

pub(crate) fn all() -> Vec<Case> {
    let all = [
        contract::cases(),
        truth::cases(),
        crash::cases(),
        pause::cases(),
        network::cases(),
        wire::cases(),
        ends::cases(),
        contention::cases(),
        fencing::cases(),
    ];
    all.into_iter().flatten().collect()
}

/// What a file of cases offers, each group with what it needs; one that is not named here is unused code, which the
/// lints refuse.
macro_rules! cases {
    ($($needs:expr => [$($name:ident),* $(,)?]),* $(,)?) => {
        pub(crate) fn cases() -> Vec<crate::cases::Case> {
            vec![$($(crate::cases::case(module_path!(), stringify!($name), $needs, $name)),*),*]
        }
    };
}
use cases;

fn case<F: Future<Output = ()> + 'static>(
    module: &str,
    name: &str,
    needs: &'static [Need],
    run: impl FnOnce(Stage) -> F + Send + 'static,
) -> Case {
    let module = module.split_once("cases::").map_or(module, |(_, module)| module);
    Case { name: format!("{module}::{name}"), needs, run: Box::new(|stage| Box::pin(run(stage))) }
}
