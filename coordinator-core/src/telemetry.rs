//! What the outside sees: digests, never names. Without a subscriber or recorder a few nanoseconds each.

use crate::{Error, LossReason, Mode, Scope};
use std::time::Duration;

pub(crate) fn asked<T>(scope: Scope, mode: Mode, wait: Duration, outcome: &Result<Option<T>, Error>) {
    match outcome {
        Ok(Some(_)) => {
            metrics::counter!("coordinator_grants_total", "mode" => mode.name()).increment(1);
            metrics::histogram!("coordinator_wait_seconds", "mode" => mode.name()).record(wait);
            tracing::debug!(%scope, %mode, ?wait, "granted");
        }
        Ok(None) => tracing::debug!(%scope, %mode, ?wait, "held by others"),
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
    if leases > 0 {
        metrics::counter!("coordinator_losses_total").increment(leases as u64);
        tracing::warn!(%scope, leases, %reason, "lost");
    }
}

pub(crate) fn waiters(more: f64) {
    metrics::gauge!("coordinator_waiters").increment(more);
}
