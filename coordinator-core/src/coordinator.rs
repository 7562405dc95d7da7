use crate::{Error, ErrorKind, Inspection, Lease, Leases, Mode, Scope, Upkeep};
use async_trait::async_trait;
use auto_impl::auto_impl;
use std::{fmt, time::Duration};

/// A lock per scope, spanning what [`is_distributed`](Self::is_distributed) says.
///
/// What an implementation owes:
/// - While an exclusive lease of a scope is live, no other lease of that scope is; shared leases coexist.
/// - `is_distributed` is a constant of the type, never configuration.
/// - Any future may be dropped at any await: nothing stays held or queued because of it.
/// - Dropping a [`Lease`] frees its scope promptly, without blocking, also when the caller's runtime is gone.
/// - Contention is not an error, inspection takes nothing, a scope's name never leaves the process.
///
/// Usually held as `Arc<dyn ErasureCoordinator>`. The conveniences are in [`ErasureCoordinatorExt`].
#[async_trait]
#[auto_impl(Arc)]
pub trait ErasureCoordinator: Send + Sync + fmt::Debug {
    /// Whether leases exclude callers in other processes and on other hosts.
    fn is_distributed(&self) -> bool;

    /// Waits until the scope can be held in this mode.
    ///
    /// # Errors
    /// [`Unavailable`](ErrorKind::Unavailable) when the backend can't be asked, or the instance is at its cap
    /// of scopes for too long; [`ShutDown`](ErrorKind::ShutDown) after a shutdown.
    ///
    /// # Cancel safety
    /// May be dropped at any time: the place in the queue, or the lease that was just granted, is given back.
    async fn acquire(&self, scope: &Scope, mode: Mode) -> Result<Lease, Error>;

    /// Takes the scope if it is free; `Ok(None)` when somebody holds it or waits for it.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire).
    ///
    /// # Cancel safety
    /// As [`acquire`](Self::acquire).
    async fn try_acquire(&self, scope: &Scope, mode: Mode) -> Result<Option<Lease>, Error>;

    /// Who holds the scope and who waits for it.
    ///
    /// # Errors
    /// [`Unavailable`](ErrorKind::Unavailable) when the backend can't be asked.
    ///
    /// # Cancel safety
    /// May be dropped at any time; it takes nothing.
    async fn inspect(&self, scope: &Scope) -> Result<Inspection, Error>;

    /// Takes several scopes, which come sorted and distinct from
    /// [`acquire_all`](ErasureCoordinatorExt::acquire_all).
    ///
    /// A coordinator with a cap of scopes overrides this to reserve the room for all of them at once, else two
    /// callers with half of the room each would wait for each other.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); nothing stays held then.
    ///
    /// # Cancel safety
    /// May be dropped at any time; nothing stays held.
    async fn acquire_sorted(&self, wanted: &[(Scope, Mode)]) -> Result<Vec<Lease>, Error> {
        let mut leases = Vec::with_capacity(wanted.len());
        for (scope, mode) in wanted {
            leases.push(self.acquire(scope, *mode).await?);
        }
        Ok(leases)
    }

    /// Refuses new requests, waits up to `limit` for the leases, frees the rest and says what was left.
    ///
    /// Callers that wait in a queue are refused at once. A lease that is left is lost with
    /// [`LossReason::ShutDown`](crate::LossReason::ShutDown), also where an irreversible step still runs under it:
    /// choose the limit longer than such a step takes. The default is for a coordinator that keeps nothing.
    ///
    /// # Errors
    /// [`Unavailable`](ErrorKind::Unavailable) when the coordinator's own tasks are gone.
    ///
    /// # Cancel safety
    /// May be dropped at any time: new requests stay refused, leases are not freed by force; call it again.
    async fn shutdown(&self, limit: Duration) -> Result<Shutdown, Error> {
        let _ = limit;
        Ok(Shutdown::default())
    }

    /// The same number for every handle of one coordinator, another for another one that lives.
    ///
    /// [`under_lock`](crate::under_lock) tells by it whether a task would wait for itself.
    fn identity(&self) -> usize {
        std::ptr::from_ref(self).cast::<()>().addr()
    }
}

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
        tokio::select! {
            biased;
            lease = self.acquire(scope, mode) => lease.map(Some),
            () = Upkeep::Process.sleep(limit) => Ok(None),
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

/// What a shutdown found still held at its limit, and then freed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shutdown {
    /// The scopes whose leases were lost by the shutdown; empty when all had been released.
    pub left: Vec<Left>,
}

/// A scope that was still held when its coordinator was shut down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Left {
    /// The scope, as the backend sees it (under the digest key, if there is one).
    pub scope: Scope,
    /// How it was held.
    pub mode: Mode,
    /// By how many leases.
    pub leases: usize,
}
