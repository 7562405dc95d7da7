/// Why a lease may no longer exclude others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LossReason {
    /// The connection to the backend ended.
    #[error("the session with the backend ended")]
    Disconnected,
    /// The backend did not answer until the lease's deadline, or the process was frozen past it.
    #[error("the backend did not answer until the lease's deadline")]
    DeadlinePassed,
    /// The backend said that the scope is not held.
    #[error("the backend says that the scope is not held")]
    NotHeld,
    /// The coordinator was shut down while the lease was held.
    #[error("the coordinator was shut down")]
    ShutDown,
}
