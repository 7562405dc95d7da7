use crate::Moment;
use coordinator_core::Mode;
use serde::{Deserialize, Serialize};

/// Something that happened to a process, or that one of its clients did or was told.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct Event {
    /// When.
    pub at: Moment,
    /// In which process; an instance that was killed and started again is another one, with a name of its own.
    pub process: String,
    /// What.
    pub what: What,
}

/// What an [`Event`] tells.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A client did or was told something about a scope.
    Client {
        /// Which one of its process; asks for one thing of a scope at a time.
        client: String,
        /// The scope's name.
        scope: String,
        /// What.
        step: Step,
    },
    /// The process is about to be killed, or the machine to lose its power. What it says later is not believed.
    Killed,
    /// Something for the reader: "frozen", "link cut".
    Note(String),
}

/// One step of a client.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// It is about to ask for the scope.
    Invoke(#[serde(with = "ModeName")] Mode),
    /// It has got the lease.
    Grant(#[serde(with = "ModeName")] Mode),
    /// It was told that the scope is not to be had now: by a try, or because its limit passed.
    Refused,
    /// It was told that its request failed; also that a release did, or a fetch of a token.
    Failed(String),
    /// It has got a fencing token.
    Token {
        /// Its value.
        token: u64,
        /// When it was asked for; the moment of the request where it came with the lease.
        asked: Moment,
    },
    /// The loss was told, with this reason.
    Lost(String),
    /// At this moment it believed for the last time. Found out later: it may have been frozen in between.
    BeliefEnded,
    /// It is about to release the lease.
    Release,
    /// It is about to drop the lease, or its request for one.
    Dropped,
}

/// How [`Mode`] is written.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Mode", rename_all = "snake_case")]
pub(crate) enum ModeName {
    Exclusive,
    Shared,
}
