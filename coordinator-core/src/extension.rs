use crate::{ErasureCoordinator, Error, ErrorKind, Lease, Leases, Mode, Scope, Upkeep};
use async_trait::async_trait;
use std::time::Duration;

/// What users like to call; every coordinator has it.
#[async_trait]
pub trait ErasureCoordinatorExt: ErasureCoordinator {
    /// [`acquire`](ErasureCoordinator::acquire), but `Ok(None)` when `limit` passes first.
    ///
    /// Needs no runtime of the caller's. With a limit of zero a remote scope is hardly ever got: use
    /// [`try_acquire`](ErasureCoordinator::try_acquire) for that.
    ///
    /// # Errors
    /// As [`acquire`](ErasureCoordinator::acquire).
    ///
    /// # Cancel safety
    /// May be dropped at any time; nothing stays held or queued.
    async fn acquire_within(&self, scope: &Scope, mode: Mode, limit: Duration) -> Result<Option<Lease>, Error> {
        let limit = Upkeep::Process.sleep(limit);
        tokio::select! {
            biased;
            lease = self.acquire(scope, mode) => lease.map(Some),
            () = limit => Ok(None),
        }
    }

    /// Takes several scopes in one global order, so that two callers can't deadlock; all of them or none.
    ///
    /// # Errors
    /// [`Invalid`](ErrorKind::Invalid) when a scope is named twice; else as [`acquire`](ErasureCoordinator::acquire).
    ///
    /// # Cancel safety
    /// May be dropped at any time; nothing stays held.
    async fn acquire_all(&self, wanted: &[(Scope, Mode)]) -> Result<Leases, Error> {
        let mut sorted = wanted.to_vec();
        sorted.sort_by_key(|(scope, _)| *scope);
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            let message = format!("the scope {} is named twice: name it once, in the stronger mode", twice[0].0);
            return Err(Error::new(ErrorKind::Invalid, "acquire_all", message));
        }
        self.acquire_sorted(&sorted).await.map(Leases)
    }
}

impl<C: ErasureCoordinator + ?Sized> ErasureCoordinatorExt for C {}
