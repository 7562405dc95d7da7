use crate::{Error, ErrorKind, Look, Mode};
use std::time::{Duration, Instant};

/// How long a scope stays with the instance that holds it.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) window: Duration,
    pub(super) longest_tenure: Duration,
    pub(super) outlast_outages: bool,
}

/// Whether this instance may hand the scope on inside itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Window {
    /// There is nobody to share with.
    Unbounded,
    /// Until then; `limit` is when the look has to be a thorough one.
    Open { until: Instant, limit: Instant },
    /// The driver was asked whether somebody else waits.
    Probing { limit: Instant, look: Look },
    /// Somebody else waits: who is in may finish, nobody joins.
    Closed,
}

/// Who is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Users {
    None,
    Shared(usize),
    Exclusive,
}

impl Rules {
    pub(super) fn open(&self, now: Instant) -> Window {
        Window::Open { until: now + self.window, limit: now + self.longest_tenure }
    }

    pub(super) fn outlasts(&self, error: &Error) -> bool {
        self.outlast_outages && error.kind() == ErrorKind::Unavailable
    }

    /// The window after a look that found nobody.
    pub(super) fn extend(&self, now: Instant, limit: Instant, look: Look) -> Window {
        match look {
            Look::Quick => Window::Open { until: now + self.window, limit },
            Look::Thorough => self.open(now),
        }
    }
}

impl Window {
    pub(super) fn is_open(self, now: Instant) -> bool {
        match self {
            Self::Unbounded => true,
            Self::Open { until, limit } => now < until.min(limit),
            Self::Probing { .. } | Self::Closed => false,
        }
    }

    /// Whether the scope is to be freed before it is handed on, whoever waits.
    pub(super) fn is_spent(self, now: Instant) -> bool {
        match self {
            Self::Open { limit, .. } => now >= limit,
            Self::Closed => true,
            Self::Unbounded | Self::Probing { .. } => false,
        }
    }

    pub(super) fn probe(self, now: Instant) -> (Self, Look) {
        let (limit, look) = match self {
            Self::Open { limit, .. } if now < limit => (limit, Look::Quick),
            _ => (now, Look::Thorough),
        };
        (Self::Probing { limit, look }, look)
    }
}

impl Users {
    /// Whether another user of this mode may be in beside them.
    pub(super) fn admit(self, mode: Mode) -> bool {
        match self {
            Self::None => true,
            Self::Shared(_) => mode == Mode::Shared,
            Self::Exclusive => false,
        }
    }

    pub(super) fn add(&mut self, mode: Mode) {
        *self = match (mode, *self) {
            (Mode::Exclusive, _) => Self::Exclusive,
            (Mode::Shared, Self::Shared(n)) => Self::Shared(n + 1),
            (Mode::Shared, _) => Self::Shared(1),
        };
    }

    pub(super) fn remove(&mut self) {
        *self = match *self {
            Self::Shared(n) if n > 1 => Self::Shared(n - 1),
            _ => Self::None,
        };
    }

    pub(super) fn mode(self) -> Option<Mode> {
        match self {
            Self::None => None,
            Self::Shared(_) => Some(Mode::Shared),
            Self::Exclusive => Some(Mode::Exclusive),
        }
    }

    pub(super) fn count(self) -> usize {
        match self {
            Self::None => 0,
            Self::Shared(n) => n,
            Self::Exclusive => 1,
        }
    }
}
