use crate::{Mode, Scope};

/// What a shutdown found still held at its limit, and then freed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shutdown {
    /// The scopes whose leases were lost by the shutdown; empty when all had been released.
    pub left: Vec<Left>,
}

/// A scope that was still held when its coordinator was shut down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Left {
    /// The scope, as the backend sees it (under the digest key, if there is one).
    pub scope: Scope,
    /// How it was held.
    pub mode: Mode,
    /// By how many leases.
    pub leases: usize,
}
