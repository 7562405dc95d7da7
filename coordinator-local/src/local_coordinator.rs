use coordinator_core::{
    CancellationToken, Cohort, CohortBacked, CohortOptions, Driver, Error, FencingToken, Grant, Inspection, Look,
    LossReason, Mode, Scope, Session,
};
use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

/// A lock per scope among the tasks and threads of one process.
///
/// It starts no thread and does no I/O: what is free is granted in the caller's first poll. Two coordinators don't
/// know each other, so a process has one and shares it by an `Arc`. Nothing but a shutdown ends a lease:
/// [`Lease::remaining`](crate::Lease::remaining) is [`Duration::MAX`](std::time::Duration::MAX).
///
/// Fencing tokens grow for as long as the coordinator lives and begin anew with the next one: they are no use to a
/// sink that outlives the process.
///
/// ```
/// use coordinator_local::{Error, LocalCoordinator, Mode, Scope, under_lock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// let coordinator = LocalCoordinator::new();
/// let subject = Scope::new("tenant-7/subject-42")?;
/// let erased = under_lock(&coordinator, &subject, Mode::Exclusive, async |lease| {
///     lease.ensure_live()?;
///     Ok::<_, Error>("erased")
/// })
/// .await?;
/// assert_eq!(erased, "erased");
/// # Ok(())
/// # }
/// ```
///
/// # Not beside a store that other instances write to
/// A plane beside a shared store takes `impl Into<Distributed>`, and this coordinator does not convert:
///
/// ```compile_fail,E0277
/// use coordinator_local::{Distributed, LocalCoordinator};
/// use std::sync::Arc;
///
/// fn plane(_: impl Into<Distributed>) {}
///
/// plane(Arc::new(LocalCoordinator::new()));
/// ```
///
/// A coordinator that promises to span instances does:
///
/// ```
/// use coordinator_local::{Distributed, LocalCoordinator};
/// # use coordinator_local::{DistributedCoordinator, ErasureCoordinator, Error, Inspection, Lease, Mode, Scope};
/// use std::sync::Arc;
/// # #[derive(Debug)]
/// # struct Spanning(LocalCoordinator);
/// # #[async_trait::async_trait]
/// # impl ErasureCoordinator for Spanning {
/// #     fn is_distributed(&self) -> bool {
/// #         true
/// #     }
/// #     async fn acquire(&self, scope: &Scope, mode: Mode) -> Result<Lease, Error> {
/// #         self.0.acquire(scope, mode).await
/// #     }
/// #     async fn try_acquire(&self, scope: &Scope, mode: Mode) -> Result<Option<Lease>, Error> {
/// #         self.0.try_acquire(scope, mode).await
/// #     }
/// #     async fn inspect(&self, scope: &Scope) -> Result<Inspection, Error> {
/// #         self.0.inspect(scope).await
/// #     }
/// # }
/// # impl DistributedCoordinator for Spanning {}
///
/// fn plane(_: impl Into<Distributed>) {}
///
/// plane(Arc::new(Spanning(LocalCoordinator::new())));
/// ```
pub struct LocalCoordinator(Cohort<NoBackend>);

impl LocalCoordinator {
    /// A coordinator that nobody holds anything of.
    pub fn new() -> Self {
        let driver = NoBackend { life: Life(Session::unbounded()), last_token: AtomicU64::new(0) };
        Self(Cohort::new(driver, CohortOptions::default()))
    }

    /// How many scopes are held or waited for now; others cost no memory.
    pub fn scopes(&self) -> usize {
        self.0.scopes()
    }
}

impl Default for LocalCoordinator {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for LocalCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalCoordinator").field("scopes", &self.scopes()).finish_non_exhaustive()
    }
}

impl CohortBacked for LocalCoordinator {
    type Driver = NoBackend;

    fn cohort(&self) -> &Cohort<NoBackend> {
        &self.0
    }
}

/// The cohort excludes; there is nobody else to ask.
#[derive(Debug)]
pub struct NoBackend {
    life: Life,
    last_token: AtomicU64,
}

/// The coordinator's life, which is that of all its leases.
#[derive(Clone, Debug)]
pub struct Life(Session);

impl Grant for Life {
    fn session(&self) -> &Session {
        &self.0
    }
}

impl Driver for NoBackend {
    type Grant = Life;

    const DISTRIBUTED: bool = false;

    fn without_backend(&self) -> Option<Life> {
        Some(self.life.clone())
    }

    async fn try_lock(&self, _: Scope, _: Mode) -> Result<Option<Life>, Error> {
        Ok(Some(self.life.clone()))
    }

    async fn lock(&self, _: Scope, _: Mode, _: CancellationToken) -> Result<Option<Life>, Error> {
        Ok(Some(self.life.clone()))
    }

    async fn unlock(&self, _: Scope, life: Life) -> Result<(), Error> {
        life.0.ensure_live("release")
    }

    async fn contended(&self, _: Scope, _: Life, _: Look) -> Result<bool, Error> {
        Ok(false)
    }

    async fn confirm(&self, life: Life) -> Result<(), Error> {
        life.0.ensure_live("release")
    }

    async fn verify(&self, _: Scope, life: Life) -> Result<(), Error> {
        life.0.ensure_live("verify")
    }

    async fn fence(&self, _: Scope, life: Life) -> Result<FencingToken, Error> {
        life.0.ensure_live("fence")?;
        Ok(FencingToken::new(self.last_token.fetch_add(1, Ordering::AcqRel) + 1))
    }

    async fn inspect(&self, _: Scope, own: Inspection) -> Result<Inspection, Error> {
        Ok(own)
    }

    async fn close(&self) {
        self.life.0.lose(LossReason::ShutDown);
    }
}

impl Drop for NoBackend {
    fn drop(&mut self) {
        self.life.0.lose(LossReason::ShutDown);
    }
}
