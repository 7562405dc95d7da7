use crate::config::PostgresBuilder;
use crate::driver::PostgresDriver;
use crate::error::classify;
use coordinator_core::{Cohort, CohortBacked, DistributedCoordinator, Error, Scope};
use std::fmt;
use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

/// A lock per scope that spans every instance that uses the same database.
///
/// The lock belongs in the store's database: prove it by [`same_database`](Self::same_database). One session, the
/// primary, holds all scopes of the instance: **losing it loses every lease of the instance**, and each is told.
///
/// ```no_run
/// use coordinator_postgres::{ErasureCoordinator, Mode, PostgresCoordinator, Scope};
///
/// # async fn example() -> Result<(), coordinator_postgres::Error> {
/// let coordinator = PostgresCoordinator::connect("postgres://app@db/store").await?;
/// let lease = coordinator.acquire(&Scope::new("subject-42")?, Mode::Exclusive).await?;
/// lease.ensure_live()?;
/// lease.release().await?;
/// # Ok(())
/// # }
/// ```
pub struct PostgresCoordinator {
    cohort: Cohort<PostgresDriver>,
    instance: String,
}

impl PostgresCoordinator {
    pub(crate) fn new(cohort: Cohort<PostgresDriver>, instance: String) -> Self {
        Self { cohort, instance }
    }

    /// With all options at their defaults.
    ///
    /// # Errors
    /// As [`PostgresBuilder::from_url`] and [`PostgresBuilder::connect`].
    ///
    /// # Cancel safety
    /// May be dropped at any time; the sessions are closed.
    pub async fn connect(url: &str) -> Result<Self, Error> {
        Self::builder(url)?.connect().await
    }

    /// Options; see also [`PostgresBuilder::from_config`] and [`PostgresBuilder::from_deadpool`].
    ///
    /// # Errors
    /// As [`PostgresBuilder::from_url`].
    pub fn builder(url: &str) -> Result<PostgresBuilder, Error> {
        PostgresBuilder::from_url(url)
    }

    /// The instance's name, as operators see it in `application_name`.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// How many scopes this instance holds or waits for now.
    pub fn scopes(&self) -> usize {
        self.cohort.scopes()
    }

    /// Asks who holds the scope, in whatever instance, to give up: its leases are lost with
    /// [`LossReason::Revoked`](coordinator_core::LossReason::Revoked), and nobody joins them.
    ///
    /// Cooperative: the scope stays the holder's until it has left, so two never believe at the same time. `Ok` says
    /// that the server took the notice; [`inspect`](coordinator_core::ErasureCoordinator::inspect) shows who holds.
    /// Only instances with the same namespace and digest key hear it. Whoever may connect to the database may ask.
    ///
    /// # Errors
    /// [`Unavailable`](coordinator_core::ErrorKind::Unavailable) when the server can't be asked.
    ///
    /// # Cancel safety
    /// May be dropped at any time; whether the notice went out is then unknown.
    pub async fn revoke(&self, scope: &Scope) -> Result<(), Error> {
        self.cohort.driver().primary.revoke(&self.cohort.digest(scope)).await
    }

    /// Whether a connection of the store sees this coordinator's locks: same server, same database, no standby.
    ///
    /// It looks for a random key that the primary holds, and takes nothing.
    ///
    /// # Errors
    /// [`Unavailable`](coordinator_core::ErrorKind::Unavailable) when either side can't be asked.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn same_database<C: GenericClient + Sync>(&self, client: &C) -> Result<bool, Error> {
        let identity = self.cohort.driver().identity().await?;
        let sql = "SELECT NOT pg_is_in_recovery() AND EXISTS (SELECT FROM pg_locks
            WHERE locktype = 'advisory' AND granted AND objsubid = 1
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND (classid::bigint << 32) | objid::bigint = $1)";
        let rows = client.query_typed(sql, &[(&identity, Type::INT8)]).await;
        Ok(rows.map_err(|error| classify("same_database", error))?.first().is_some_and(|row| row.get(0)))
    }
}

impl CohortBacked for PostgresCoordinator {
    type Driver = PostgresDriver;

    fn cohort(&self) -> &Cohort<PostgresDriver> {
        &self.cohort
    }
}

impl DistributedCoordinator for PostgresCoordinator {}

impl fmt::Debug for PostgresCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresCoordinator").field("instance", &self.instance).finish_non_exhaustive()
    }
}
