use crate::config::RedisBuilder;
use crate::driver::RedisDriver;
use coordinator_core::{Cohort, CohortBacked, DistributedCoordinator, Error, Scope};
use std::fmt;

/// A lock per scope that spans every instance that uses the same Redis server and namespace.
///
/// One session at the server holds all scopes of the instance: **losing it loses every lease of the instance**, and each
/// is told. The crate's documentation says what Redis can't promise; check fencing tokens where that matters.
///
/// ```no_run
/// use coordinator_redis::{ErasureCoordinator, Mode, RedisCoordinator, Scope};
///
/// # async fn example() -> Result<(), coordinator_redis::Error> {
/// let coordinator = RedisCoordinator::connect("redis://app:word@redis:6379").await?;
/// let lease = coordinator.acquire(&Scope::new("subject-42")?, Mode::Exclusive).await?;
/// lease.ensure_live()?;
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
pub struct RedisCoordinator {
    cohort: Cohort<RedisDriver>,
    instance: String,
    prefix: String,
}

impl RedisCoordinator {
    pub(crate) fn new(cohort: Cohort<RedisDriver>, instance: String, prefix: String) -> Self {
        Self { cohort, instance, prefix }
    }

    /// With all options at their defaults.
    ///
    /// # Errors
    /// As [`RedisBuilder::from_url`] and [`RedisBuilder::connect`].
    ///
    /// # Cancel safety
    /// May be dropped at any time; the session ends.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::builder(url)?.connect().await
    }

    /// Options.
    ///
    /// # Errors
    /// As [`RedisBuilder::from_url`].
    pub fn builder(url: &str) -> Result<RedisBuilder, Error> {
        RedisBuilder::from_url(url)
    }

    /// The instance's name, as other instances see it in an inspection.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// How many scopes this instance holds or waits for now.
    pub fn scopes(&self) -> usize {
        self.cohort.scopes()
    }

    /// What all keys and channels of this deployment begin with, for the server's access rules.
    pub fn key_prefix(&self) -> &str {
        &self.prefix
    }

    /// Asks who holds the scope, in whatever instance, to give up: its leases are lost with
    /// [`LossReason::Revoked`](coordinator_core::LossReason::Revoked), and nobody joins them.
    ///
    /// Cooperative: the scope stays the holder's until it has left, so two never believe at the same time. `Ok` says
    /// that the server took the notice; an instance whose connection is broken at that moment does not hear it, so look
    /// with [`inspect`](coordinator_core::ErasureCoordinator::inspect) and ask again. Only instances with the same
    /// namespace and digest key hear it. Whoever may publish on the server may ask.
    ///
    /// # Errors
    /// [`Unavailable`](coordinator_core::ErrorKind::Unavailable) when the server can't be asked.
    ///
    /// # Cancel safety
    /// May be dropped at any time; whether the notice went out is then unknown.
    pub async fn revoke(&self, scope: &Scope) -> Result<(), Error> {
        self.cohort.driver().revoke(&self.cohort.digest(scope)).await
    }
}

impl CohortBacked for RedisCoordinator {
    type Driver = RedisDriver;

    fn cohort(&self) -> &Cohort<RedisDriver> {
        &self.cohort
    }
}

impl DistributedCoordinator for RedisCoordinator {}

impl fmt::Debug for RedisCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisCoordinator").field("instance", &self.instance).finish_non_exhaustive()
    }
}
