use super::CohortOptions;
use crate::Look;
use std::time::{Duration, Instant};

/// Whether this instance may hand the scope on inside itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Window {
    /// There is nobody to share with.
    Unbounded,
    /// Until then; from `limit` on the look has to be a thorough one.
    Open { until: Instant, limit: Instant },
    /// The driver was asked whether somebody else waits; thoroughly, if there is no limit.
    Probing { limit: Option<Instant> },
    /// Somebody else waits: who is in may finish, nobody joins.
    Closed,
}

impl Window {
    /// Up to the limit of an earlier one, else with one of its own.
    pub(super) fn open(now: Instant, limit: Option<Instant>, options: &CohortOptions) -> Self {
        let limit = limit.unwrap_or_else(|| later(now, options.longest_tenure));
        Self::Open { until: later(now, options.window).min(limit), limit }
    }

    pub(super) fn is_open(self, now: Instant) -> bool {
        self == Self::Unbounded || matches!(self, Self::Open { until, .. } if now < until)
    }

    /// Whether the scope is to be freed before it is handed on, whoever waits.
    pub(super) fn is_spent(self, now: Instant) -> bool {
        self == Self::Closed || matches!(self, Self::Open { limit, .. } if now >= limit)
    }

    pub(super) fn probe(&mut self, now: Instant) -> Look {
        let limit = match *self {
            Self::Open { limit, .. } if now < limit => Some(limit),
            _ => None,
        };
        *self = Self::Probing { limit };
        if limit.is_some() { Look::Quick } else { Look::Thorough }
    }
}

/// Also for spans that a clock can't hold.
fn later(now: Instant, span: Duration) -> Instant {
    const AGES: Duration = Duration::from_secs(30 * 365 * 86_400);
    now.checked_add(span).unwrap_or_else(|| now + AGES)
}
