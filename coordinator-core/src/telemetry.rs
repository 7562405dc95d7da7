//! What the outside sees: digests, never names. Without a subscriber or recorder a few nanoseconds each.

use crate::{Error, LossReason, Mode, Scope};
use std::time::Duration;

pub(crate) fn granted(scope: Scope, mode: Mode, wait: Duration) {
    metrics::counter!("coordinator_grants_total", "mode" => mode.name()).increment(1);
    metrics::histogram!("coordinator_wait_seconds", "mode" => mode.name()).record(wait);
    tracing::debug!(%scope, %mode, ?wait, "granted");
}

pub(crate) fn not_granted(scope: Scope, mode: Mode, wait: Duration, outcome: Result<(), &Error>) {
    match outcome {
        Ok(()) => tracing::debug!(%scope, %mode, ?wait, "held by others"),
        Err(error) => tracing::debug!(%scope, %mode, ?wait, %error, "not granted"),
    }
}

pub(crate) fn left(scope: Scope, mode: Mode, hold: Duration) {
    metrics::histogram!("coordinator_hold_seconds", "mode" => mode.name()).record(hold);
    tracing::debug!(%scope, %mode, ?hold, "left");
}

pub(crate) fn freed(scope: Scope, outcome: &Result<(), Error>) {
    match outcome {
        Ok(()) => tracing::trace!(%scope, "freed"),
        Err(error) => {
            metrics::counter!("coordinator_failed_releases_total").increment(1);
            tracing::warn!(%scope, %error, "not freed in order");
        }
    }
}

pub(crate) fn lost(scope: Scope, leases: usize, reason: LossReason) {
    metrics::counter!("coordinator_losses_total").increment(leases as u64);
    tracing::warn!(%scope, leases, %reason, "lost");
}

/// Counts a waiter for as long as it lives.
pub(crate) struct Waiter;

impl Waiter {
    pub(crate) fn begin() -> Self {
        metrics::gauge!("coordinator_waiters").increment(1.0);
        Self
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        metrics::gauge!("coordinator_waiters").decrement(1.0);
    }
}
