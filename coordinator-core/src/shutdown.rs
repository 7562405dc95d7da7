use crate::{Mode, Scope};

/// What a shutdown found still held at its limit, and then freed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Shutdown {
    /// The scopes whose leases were lost by the shutdown; empty when all had been released.
    pub left: Vec<Left>,
}

impl Shutdown {
    /// A shutdown that left these.
    pub fn new(left: Vec<Left>) -> Self {
        Self { left }
    }

    /// Every lease had been released.
    pub fn is_clean(&self) -> bool {
        self.left.is_empty()
    }
}

/// A scope that was still held when its coordinator was shut down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Left {
    /// The scope, as the backend sees it (under the digest key, if there is one).
    pub scope: Scope,
    /// How it was held.
    pub mode: Mode,
    /// By how many leases.
    pub leases: usize,
}

impl Left {
    /// A scope that was left.
    pub fn new(scope: Scope, mode: Mode, leases: usize) -> Self {
        Self { scope, mode, leases }
    }
}
