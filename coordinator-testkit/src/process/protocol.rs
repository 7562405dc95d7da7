//! What the two processes say to each other.

use crate::history::ModeName;
use crate::moment::Moment;
use coordinator_core::{Error, Mode};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The variable that makes this program an instance; its value is the instance's [`Env`](crate::Env).
pub(super) const AGENT: &str = "COORDINATOR_TESTKIT_INSTANCE";

#[derive(Serialize, Deserialize, Debug)]
pub(super) struct Numbered {
    pub(super) number: u64,
    pub(super) command: Command,
}

#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Command {
    Connect,
    Acquire {
        scope: String,
        #[serde(with = "ModeName")]
        mode: Mode,
        limit: Duration,
    },
    TryAcquire {
        scope: String,
        #[serde(with = "ModeName")]
        mode: Mode,
    },
    /// Takes that many scopes, `many-0`, `many-1`, …, exclusive, and keeps them.
    AcquireMany {
        scopes: usize,
    },
    Release {
        scope: String,
    },
    Fence {
        scope: String,
    },
    EnsureLive {
        scope: String,
    },
    Inspect {
        scope: String,
    },
    /// Blocks every worker of the process's runtime that long.
    Block {
        time: Duration,
    },
    /// Acquires, fences and releases that scope again and again, until it is killed.
    Churn {
        scope: String,
    },
    /// That many tasks, of which the first `shared` want it shared, take the scope that often each; every wait within
    /// the limit.
    Contend {
        scope: String,
        tasks: usize,
        shared: usize,
        rounds: usize,
        limit: Duration,
    },
    /// Runs an irreversible step of that length under the lease.
    Step {
        scope: String,
        time: Duration,
    },
}

#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Done,
    Granted {
        at: Moment,
    },
    /// By a try.
    Refused,
    /// The limit passed.
    TimedOut,
    Token(u64),
    Contended(Vec<Span>),
    Live(bool),
    Seen {
        holders: usize,
        waiters: usize,
    },
    Failed {
        is_lost: bool,
        is_retryable: bool,
        text: String,
    },
    /// The process ended before it answered.
    Gone,
}

/// When a task of a crowd held the scope.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) task: usize,
    pub(crate) shared: bool,
    pub(crate) asked: Moment,
    pub(crate) from: Moment,
    pub(crate) fenced: Moment,
    pub(crate) until: Moment,
    pub(crate) token: u64,
}

/// Said unasked, of a lease that was granted.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) enum Told {
    /// `lost()` resolved.
    Lost { scope: String, reason: String, at: Moment },
    /// `ensure_live()` fails; when it said for the last time that the lease is live, asked about every millisecond.
    BelievedUntil { scope: String, at: Moment },
}

#[derive(Serialize, Deserialize, Debug)]
pub(super) enum Line {
    Answer { number: u64, answer: Answer },
    Told(Told),
}

impl Answer {
    pub(super) fn failed(error: &Error) -> Self {
        let (is_lost, is_retryable) = (error.is_lost(), error.is_retryable());
        Self::Failed { is_lost, is_retryable, text: error.to_string() }
    }

    #[track_caller]
    pub(crate) fn done(self) {
        assert_eq!(self, Self::Done);
    }

    /// When it was.
    #[track_caller]
    pub(crate) fn granted(self) -> Moment {
        if let Self::Granted { at } = self { at } else { panic!("{self:?} instead of a lease") }
    }

    pub(crate) fn is_granted(&self) -> bool {
        matches!(self, Self::Granted { .. })
    }

    #[track_caller]
    pub(crate) fn token(self) -> u64 {
        if let Self::Token(token) = self { token } else { panic!("{self:?} instead of a token") }
    }

    #[track_caller]
    pub(crate) fn spans(self) -> Vec<Span> {
        if let Self::Contended(spans) = self { spans } else { panic!("{self:?} instead of a crowd's leases") }
    }

    #[track_caller]
    pub(crate) fn lost(self) {
        assert!(matches!(self, Self::Failed { is_lost: true, .. }), "{self:?} instead of a loss");
    }
}
