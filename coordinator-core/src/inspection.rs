use crate::Mode;
use std::time::SystemTime;

/// Who holds a scope and who waits for it, as the backend sees it; looking takes nothing.
///
/// It is true at some moment between the call and the answer, and may be stale when it is read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Inspection {
    /// Who holds the scope.
    pub holders: Vec<Party>,
    /// Who waits for it; an instance is one waiter, however many of its callers wait.
    pub waiters: Vec<Party>,
}

impl Inspection {
    /// An inspection that found these.
    pub fn new(holders: Vec<Party>, waiters: Vec<Party>) -> Self {
        Self { holders, waiters }
    }

    /// Nobody holds the scope and nobody waits for it.
    pub fn is_free(&self) -> bool {
        self.holders.is_empty() && self.waiters.is_empty()
    }
}

/// A holder of a scope, or a waiter for it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Party {
    /// The instance's name, as it gave it to the backend.
    pub instance: String,
    /// How it holds the scope or wants to; `None` where the backend can't tell yet.
    pub mode: Option<Mode>,
    /// Since when, where the backend knows.
    pub since: Option<SystemTime>,
}

impl Party {
    /// A party.
    pub fn new(instance: impl Into<String>, mode: Option<Mode>, since: Option<SystemTime>) -> Self {
        Self { instance: instance.into(), mode, since }
    }
}
