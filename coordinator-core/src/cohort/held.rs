//! The lock that the instance has of a scope, and whether it may hand it on inside itself.

use super::{CohortOptions, Granted};
use crate::{Grant, Look, LossReason, Mode, Moment};

/// What the instance has of the backend.
pub(super) struct Held<G> {
    pub(super) granted: Granted<G>,
    /// In what mode; without a backend, as it was lent last.
    pub(super) mode: Mode,
    pub(super) leases: usize,
    pub(super) window: Window,
}

impl<G: Grant> Held<G> {
    pub(super) fn is_live(&self) -> bool {
        self.granted.grant.session().judge().is_none()
    }

    pub(super) fn is_revoked(&self) -> bool {
        self.granted.session.judge() == Some(LossReason::Revoked)
    }

    /// An exclusive lock is not handed to shared callers: those of other instances may join them.
    pub(super) fn gives(&self, mode: Mode) -> bool {
        self.mode == mode || self.window == Window::Unbounded
    }

    /// Whether nobody who is in has to leave first.
    pub(super) fn admits(&self, mode: Mode) -> bool {
        self.leases == 0 || self.window != Window::Closed && (self.mode, mode) == (Mode::Shared, Mode::Shared)
    }

    pub(super) fn lend(&mut self, mode: Mode) -> Granted<G> {
        self.mode = mode;
        self.leases += 1;
        self.granted.clone()
    }
}

/// Whether this instance may hand the scope on inside itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Window {
    /// There is nobody to share with.
    Unbounded,
    /// Until then; from `limit` on the look has to be a thorough one.
    Open { until: Moment, limit: Moment },
    /// The driver was asked whether somebody else waits; thoroughly, if there is no limit.
    Probing { limit: Option<Moment> },
    /// Somebody else waits: who is in may finish, nobody joins.
    Closed,
}

impl Window {
    /// Up to the limit of an earlier one, else with one of its own.
    pub(super) fn open(now: Moment, limit: Option<Moment>, options: &CohortOptions) -> Self {
        let limit = limit.unwrap_or_else(|| now.after(options.longest_tenure));
        Self::Open { until: now.after(options.window).min(limit), limit }
    }

    pub(super) fn is_open(self, now: Moment) -> bool {
        self == Self::Unbounded || matches!(self, Self::Open { until, .. } if now < until)
    }

    /// Whether the scope is to be freed before it is handed on, whoever waits.
    pub(super) fn is_spent(self, now: Moment) -> bool {
        self == Self::Closed || matches!(self, Self::Open { limit, .. } if now >= limit)
    }

    pub(super) fn probe(&mut self, now: Moment) -> Look {
        let limit = match *self {
            Self::Open { limit, .. } if now < limit => Some(limit),
            _ => None,
        };
        *self = Self::Probing { limit };
        if limit.is_some() { Look::Quick } else { Look::Thorough }
    }
}
