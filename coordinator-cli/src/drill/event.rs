use super::key_service::KeyName;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A kind of lifecycle operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub(crate) enum Operation {
    Write,
    Hold,
    Lift,
    Erase,
    Resume,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Write => "write",
            Self::Hold => "hold",
            Self::Lift => "lift",
            Self::Erase => "erase",
            Self::Resume => "resume",
        })
    }
}

/// Why an operation was not carried out; nothing has changed then.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub(crate) enum Refusal {
    /// The subject is being erased.
    Tombstoned,
    /// One of the subject's items is under a hold.
    Held,
    /// There is nothing to hold, lift, erase or resume.
    Nothing,
    /// The key is destroyed, or has been replaced meanwhile.
    KeyGone,
    /// Another instance carries the erasure out.
    TakenOver,
}

/// What an instance tells of an operation; an acknowledgement counts when the drill has read it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Event {
    /// The item is committed: it must stay readable until an erasure that saw it.
    Wrote { item: i64, key: KeyName },
    /// The hold is committed: its item must stay until the hold is lifted.
    Held { hold: i64, item: i64, key: KeyName },
    /// Holds whose term has ended are lifted.
    Lifted { holds: u64 },
    /// The subject's key is destroyed.
    Erased { key: KeyName },
    /// So it is, after the instance that had begun it died.
    Resumed { key: KeyName },
    /// Nothing was done.
    Refused { operation: Operation, why: Refusal },
    /// It may have been done or not.
    Failed { operation: Operation, message: String },
}

/// An event, and how long the operation had waited for its scope.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) event: Event,
    pub(crate) waited_micros: Option<u64>,
}
