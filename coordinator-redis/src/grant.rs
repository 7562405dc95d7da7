use crate::session::RedisSession;
use coordinator_core::{Mode, Scope, Session};
use std::fmt;
use std::sync::Arc;

/// A place in the line of a scope, by the number of the request that took it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Entry {
    pub(crate) number: u64,
    pub(crate) mode: Mode,
}

impl Entry {
    /// `SESSION.NUMBER`, as the scripts name who holds or waits.
    pub(crate) fn by(self, session: &str) -> String {
        format!("{session}.{}", self.number)
    }

    pub(crate) fn letter(self) -> &'static str {
        match self.mode {
            Mode::Exclusive => "x",
            Mode::Shared => "s",
        }
    }

    /// What a scope's line says while this entry holds it.
    pub(crate) fn held(self, session: &str) -> String {
        format!("{},{},h,;", self.by(session), self.letter())
    }
}

/// A scope, held by a session.
#[derive(Clone)]
pub struct Grant {
    pub(crate) session: Arc<RedisSession>,
    pub(crate) scope: Scope,
    pub(crate) entry: Entry,
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Grant").field(&self.entry).finish()
    }
}

impl coordinator_core::Grant for Grant {
    fn session(&self) -> &Session {
        self.session.session()
    }
}
