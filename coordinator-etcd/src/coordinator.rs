use crate::config::EtcdBuilder;
use crate::driver::EtcdDriver;
use crate::revocation::revoke;
use coordinator_core::{Cohort, CohortBacked, DistributedCoordinator, Error, ErrorKind, Lease, Scope};
use etcd_client::Compare;
use std::fmt;

/// A lock per scope that spans every instance that uses the same etcd cluster and namespace.
///
/// One lease at the server carries all scopes of the instance: **losing it loses every lease of the instance**, and each
/// is told. Later acquires work, on a lease that is made anew.
pub struct EtcdCoordinator {
    cohort: Cohort<EtcdDriver>,
}

impl EtcdCoordinator {
    pub(crate) fn new(cohort: Cohort<EtcdDriver>) -> Self {
        Self { cohort }
    }

    /// With all options at their defaults; the endpoints are `http://host:port` or `https://host:port`, with commas in
    /// between.
    ///
    /// # Errors
    /// As [`EtcdBuilder::from_endpoints`] and [`EtcdBuilder::connect`].
    ///
    /// # Cancel safety
    /// May be dropped at any time; the lease at the server is revoked.
    pub async fn connect(endpoints: &str) -> Result<Self, Error> {
        Self::builder(endpoints)?.connect().await
    }

    /// Options.
    ///
    /// # Errors
    /// As [`EtcdBuilder::from_endpoints`].
    pub fn builder(endpoints: &str) -> Result<EtcdBuilder, Error> {
        EtcdBuilder::from_endpoints(endpoints)
    }

    /// The instance's name, as operators see it in the values of its keys.
    pub fn instance(&self) -> &str {
        &self.cohort.driver().plan.instance
    }

    /// How many scopes this instance holds or waits for now.
    pub fn scopes(&self) -> usize {
        self.cohort.scopes()
    }

    /// What a transaction of one's own on the same cluster is to be guarded with: it then fails once the instance does
    /// not hold the scope any more, whatever became of the process in between.
    ///
    /// It guards against other instances. Callers of this instance to whom the scope is handed on share its key at the
    /// server: what has to tell them apart compares fencing tokens.
    ///
    /// ```no_run
    /// use coordinator_etcd::etcd_client::{Client, Txn, TxnOp};
    /// # use coordinator_etcd::{Error, EtcdCoordinator, Lease};
    /// # async fn guarded(
    /// #     coordinator: &EtcdCoordinator, lease: &Lease, mut store: Client,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let guard = coordinator.guard(lease)?;
    /// let txn = Txn::new().when([guard]).and_then([TxnOp::put("item", "sealed", None)]);
    /// if !store.txn(txn).await?.succeeded() {
    ///     return Err("the scope is not held any more: nothing was written".into());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Lost`](ErrorKind::Lost) when the lease is; [`Invalid`](ErrorKind::Invalid) for a lease of another coordinator.
    pub fn guard(&self, lease: &Lease) -> Result<Compare, Error> {
        lease.ensure_live()?;
        let place = self.cohort.driver().held.find(&self.cohort.digest(lease.scope())).ok_or_else(|| {
            Error::new(
                ErrorKind::Invalid,
                "guard",
                "this coordinator does not hold the lease's scope: ask the one that does",
            )
        })?;
        match place.session.state.session.loss() {
            Some(reason) => Err(Error::lost("guard", reason)),
            None => Ok(place.is_ours()),
        }
    }

    /// Asks the scope's holders, in whatever instance, to give it up: their leases are lost with
    /// [`LossReason::Revoked`](coordinator_core::LossReason::Revoked), and the scope stays theirs until they have left.
    ///
    /// Who acquires it afterwards is not meant. Resolves when the request is at the server; an instance that is away
    /// from it hears of it within a minute, or not at all.
    ///
    /// # Errors
    /// [`Unavailable`](ErrorKind::Unavailable) when the server does not answer: retry.
    ///
    /// # Cancel safety
    /// May be dropped at any time; it may have been asked.
    pub async fn revoke(&self, scope: &Scope) -> Result<(), Error> {
        let plan = &self.cohort.driver().plan;
        let (servers, key) = (plan.servers.clone(), plan.keyspace.revocation(&self.cohort.digest(scope)));
        let asked = plan.upkeep.spawn(async move { revoke(&servers, key).await });
        let ended = |error| Error::with_source(ErrorKind::Unavailable, "revoke", "the attempt was ended", error);
        asked.await.map_err(ended)?
    }
}

impl CohortBacked for EtcdCoordinator {
    type Driver = EtcdDriver;

    fn cohort(&self) -> &Cohort<EtcdDriver> {
        &self.cohort
    }
}

impl DistributedCoordinator for EtcdCoordinator {}

impl fmt::Debug for EtcdCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdCoordinator").field("instance", &self.instance()).finish_non_exhaustive()
    }
}
