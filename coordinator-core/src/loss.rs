use std::fmt;

/// Why a lease may no longer exclude others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LossReason {
    /// The connection to the backend ended.
    Disconnected,
    /// The backend did not answer until the lease's deadline, or the process was frozen past it.
    DeadlinePassed,
    /// The backend said that the scope is not held.
    NotHeld,
    /// The coordinator was shut down while the lease was held.
    ShutDown,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Disconnected => "the session with the backend ended",
            Self::DeadlinePassed => "the backend did not answer until the lease's deadline",
            Self::NotHeld => "the backend says that the scope is not held",
            Self::ShutDown => "the coordinator was shut down",
        })
    }
}
