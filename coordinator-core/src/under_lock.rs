use crate::{ErasureCoordinator, Error, ErrorKind, Lease, Mode, Scope};

/// Acquires the scope, runs `work`, and releases on every path: the one way that most code needs.
///
/// `work` gets the lease by reference: it can verify, fence and run irreversible steps, and can't release. Its error
/// wins over the release's; a release that fails after successful work is the result. When the lease is lost, `work`
/// is dropped at its next await and the result is [`Lost`](ErrorKind::Lost). The work's future is always dropped
/// before the scope is freed. What the work spawned elsewhere is not cancelled.
///
/// The future is `Send` when the work's is. A function that is generic over the work can't spawn it (the compiler
/// can't name the closure's future): spawn where the closure is written.
///
/// ```
/// # use coordinator_core::{ErasureCoordinator, Error, Mode, Scope, under_lock};
/// # use std::{sync::Arc, time::Duration};
/// async fn erase(coordinator: Arc<dyn ErasureCoordinator>, subject: &str) -> Result<(), Error> {
///     let scope = Scope::new(subject)?;
///     under_lock(&coordinator, &scope, Mode::Exclusive, async |lease| {
///         // check the holds, commit the tombstone …
///         lease.irreversible(Duration::from_secs(5), async { /* destroy the key */ }).await
///     })
///     .await
/// }
/// ```
///
/// # Errors
/// What the acquire fails with; [`Reentrant`](ErrorKind::Reentrant) when this task holds the scope already through
/// `under_lock` on this coordinator, in whatever mode; what the work returned; [`Lost`](ErrorKind::Lost).
///
/// # Cancel safety
/// May be dropped at any time: the work is dropped, then the scope is freed (after irreversible steps that run).
pub async fn under_lock<C: ErasureCoordinator + ?Sized, T, E: From<Error>>(
    coordinator: &C,
    scope: &Scope,
    mode: Mode,
    work: impl AsyncFnOnce(&Lease) -> Result<T, E>,
) -> Result<T, E> {
    let (mut held, this) = (held(), (coordinator.identity(), *scope));
    if held.contains(&this) {
        let message = "this task holds the scope already and would wait for itself: pass the lease on instead";
        return Err(Error::new(ErrorKind::Reentrant, "under_lock", message).into());
    }
    held.push(this);
    let lease = coordinator.acquire(scope, mode).await?;
    let outcome = {
        let lost = lease.lost();
        let work = HELD.scope(held, work(&lease));
        tokio::select! {
            biased;
            // The lease is dropped: nothing to confirm, and an answer from a dead session would delay the news.
            reason = lost => return Err(Error::lost("under_lock", reason).into()),
            outcome = work => outcome,
        }
    };
    let released = lease.release().await;
    let value = outcome?;
    released?;
    Ok(value)
}

tokio::task_local! {
    /// What the current task holds through `under_lock`: the coordinator's identity and the scope.
    static HELD: Vec<(usize, Scope)>;
}

fn held() -> Vec<(usize, Scope)> {
    HELD.try_with(Clone::clone).unwrap_or_default()
}

/// `step`, knowing on another task what the current one holds.
pub(crate) fn inherit<F: Future>(step: F) -> impl Future<Output = F::Output> {
    HELD.scope(held(), step)
}
