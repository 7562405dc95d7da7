//! What an instance and the server say to each other: a line of JSON each, numbered, the answer like its request.

use coordinator_core::Mode;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime};

#[derive(Serialize, Deserialize, Debug)]
pub(crate) struct Numbered<T> {
    pub(crate) number: u64,
    pub(crate) body: T,
}

impl<T: Serialize> Numbered<T> {
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default(); // plain data: it can't fail
        line.push(b'\n');
        line
    }
}

#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Request {
    /// The first of a session: whose it is.
    Hello { instance: String },
    /// Nothing but a sign of life; every other request is one too.
    Ping,
    /// Takes the lock if it is free and nobody waits.
    TryLock {
        key: String,
        #[serde(with = "ModeName")]
        mode: Mode,
    },
    /// Stands in line; answered once the lock is got, or with `No` after it was withdrawn.
    Lock {
        key: String,
        #[serde(with = "ModeName")]
        mode: Mode,
    },
    /// The request of that number does not want its lock any more.
    Withdraw { number: u64 },
    /// Frees the lock.
    Unlock { key: String },
    /// Whether the session holds the lock.
    IsHeld { key: String },
    /// Whether anybody waits for the lock.
    IsWaitedFor { key: String },
    /// A new token, if the session holds the lock.
    Token { key: String },
    /// Who else holds the lock and waits for it.
    Look { key: String },
    /// Ends every session of that instance.
    End { instance: String },
}

#[derive(Serialize, Deserialize, Debug)]
pub(crate) enum Reply {
    /// A session that says nothing for so long is ended.
    Welcome {
        silence: Duration,
    },
    Yes,
    No,
    Token(u64),
    Seen {
        holders: Vec<Seen>,
        waiters: Vec<Seen>,
    },
}

#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) instance: String,
    #[serde(with = "ModeName")]
    pub(crate) mode: Mode,
    pub(crate) since: SystemTime,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Mode")]
enum ModeName {
    Exclusive,
    Shared,
}
