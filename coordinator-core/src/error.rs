use std::{error, sync::Arc};

/// What a caller does about an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The backend, or room at it, can't be had now: retry.
    Unavailable,
    /// The lease may no longer exclude others: stop.
    Lost(LossReason),
    /// The call or the configuration can't ever work: fix it.
    Invalid,
    /// This task holds the scope already and would wait for itself: fix the call.
    Reentrant,
    /// The coordinator was shut down: stop.
    ShutDown,
}

/// A failure: what was tried, what a caller can do about it, and the driver's own error as source.
///
/// Cheap to clone: one failure of a backend answers every waiter of a scope.
#[derive(Clone, Debug, thiserror::Error)]
#[error(transparent)]
pub struct Error(Arc<Inner>);

#[derive(Debug, thiserror::Error)]
#[error("{operation}: {message}")]
struct Inner {
    kind: ErrorKind,
    operation: &'static str,
    message: String,
    source: Option<Box<dyn error::Error + Send + Sync>>,
}

impl Error {
    /// An error without a cause of its own.
    pub fn new(kind: ErrorKind, operation: &'static str, message: impl Into<String>) -> Self {
        Self(Arc::new(Inner { kind, operation, message: message.into(), source: None }))
    }

    /// An error that another one caused.
    pub fn with_source(
        kind: ErrorKind,
        operation: &'static str,
        message: impl Into<String>,
        source: impl Into<Box<dyn error::Error + Send + Sync>>,
    ) -> Self {
        Self(Arc::new(Inner { kind, operation, message: message.into(), source: Some(source.into()) }))
    }

    /// The lease was lost.
    pub fn lost(operation: &'static str, reason: LossReason) -> Self {
        Self::new(ErrorKind::Lost(reason), operation, format!("the lease was lost: {reason}"))
    }

    /// What to do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What was tried.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        self.kind() == ErrorKind::Unavailable
    }

    /// Whether a lease was lost.
    pub fn is_lost(&self) -> bool {
        matches!(self.kind(), ErrorKind::Lost(_))
    }
}

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
    /// Somebody asked its holder to give up; the scope stays the holder's until it leaves.
    #[error("the holder was asked to give up")]
    Revoked,
    /// The coordinator was shut down while the lease was held.
    #[error("the coordinator was shut down")]
    ShutDown,
}
