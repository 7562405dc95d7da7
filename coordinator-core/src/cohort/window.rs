use super::CohortOptions;
use crate::{Look, Mode};
use std::time::{Duration, Instant};

/// Whether this instance may hand the scope on inside itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Window {
    /// There is nobody to share with.
    Unbounded,
    /// Until then; from `limit` on the look has to be a thorough one.
    Open { until: Instant, limit: Instant },
    /// The driver was asked whether somebody else waits.
    Probing { limit: Instant, look: Look },
    /// Somebody else waits: who is in may finish, nobody joins.
    Closed,
}

impl Window {
    pub(super) fn open(now: Instant, options: &CohortOptions) -> Self {
        Self::Open { until: later(now, options.window), limit: later(now, options.longest_tenure) }
    }

    /// After a look that found nobody.
    pub(super) fn reopen(&mut self, now: Instant, options: &CohortOptions) {
        let looked = *self;
        *self = Self::open(now, options);
        if let (Self::Open { limit, .. }, Self::Probing { limit: old, look: Look::Quick }) = (self, looked) {
            *limit = old;
        }
    }

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

    pub(super) fn probe(&mut self, now: Instant) -> Look {
        let (limit, look) = match *self {
            Self::Open { limit, .. } if now < limit => (limit, Look::Quick),
            _ => (now, Look::Thorough),
        };
        *self = Self::Probing { limit, look };
        look
    }
}

/// Also for spans that a clock can't hold.
fn later(now: Instant, span: Duration) -> Instant {
    const AGES: Duration = Duration::from_secs(30 * 365 * 86_400);
    now.checked_add(span).unwrap_or_else(|| now + AGES)
}

/// Who is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Users {
    None,
    Shared(usize),
    Exclusive,
}

impl Users {
    /// Whether another user of this mode may be in beside them.
    pub(super) fn admit(self, mode: Mode) -> bool {
        self == Self::None || mode == Mode::Shared && self != Self::Exclusive
    }

    pub(super) fn add(&mut self, mode: Mode) {
        *self = match mode {
            Mode::Exclusive => Self::Exclusive,
            Mode::Shared => Self::Shared(self.count().1 + 1),
        };
    }

    pub(super) fn remove(&mut self) {
        *self = match *self {
            Self::Shared(n) if n > 1 => Self::Shared(n - 1),
            _ => Self::None,
        };
    }

    pub(super) fn count(self) -> (Mode, usize) {
        match self {
            Self::None => (Mode::Shared, 0),
            Self::Shared(n) => (Mode::Shared, n),
            Self::Exclusive => (Mode::Exclusive, 1),
        }
    }
}
