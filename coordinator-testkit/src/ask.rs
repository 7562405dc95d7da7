//! The questions that most cases ask.

use crate::{Handle, PATIENCE, until};
use coordinator_core::{ErasureCoordinatorExt, Lease, Mode, Scope};
use std::sync::atomic::{AtomicU64, Ordering};

/// A scope of its own for each call, in this process.
///
/// # Panics
/// Never: the name is valid.
pub fn fresh_scope() -> Scope {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    Scope::new(format!("case/{}", NEXT.fetch_add(1, Ordering::Relaxed))).expect("a valid name")
}

/// The lease, by a time that nothing takes.
///
/// # Panics
/// When the acquire fails, or it is not to be had.
pub async fn soon(coordinator: &Handle, scope: &Scope, mode: Mode) -> Lease {
    let lease = coordinator.acquire_within(scope, mode, PATIENCE).await.expect("no failure");
    lease.unwrap_or_else(|| panic!("{mode} is not to be had"))
}

/// Holds only if an exclusive lease is to be had, which is then released.
///
/// # Panics
/// When it is not.
pub async fn is_free(coordinator: &Handle, scope: &Scope) {
    soon(coordinator, scope, Mode::Exclusive).await.release().await.expect("held to the end");
}

/// Waits until the coordinator says that somebody waits for the scope.
///
/// # Panics
/// When nobody does.
pub async fn somebody_waits(coordinator: &Handle, scope: &Scope) {
    until(PATIENCE, "somebody waits", async || {
        !coordinator.inspect(scope).await.expect("an answer").waiters.is_empty()
    })
    .await;
}
