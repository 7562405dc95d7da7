use crate::driver::{Place, ToyDriver, ToyGrant};
use coordinator_core::{
    CancellationToken, Cohort, CohortBacked, CohortOptions, DistributedCoordinator, Driver, Error, ErrorKind, Mode,
    Scope,
};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use tokio_util::task::AbortOnDropHandle;

/// A lock per scope that spans every instance beside the same [`Server`](crate::Server).
pub struct ToyCoordinator(Cohort<ToyDriver>);

impl ToyCoordinator {
    /// An instance of that name, at a server's `host:port`. Instances of one namespace exclude each other.
    ///
    /// # Errors
    /// [`Unavailable`](ErrorKind::Unavailable) when the server can't be reached, [`Invalid`](ErrorKind::Invalid) when
    /// what listens there is not one.
    ///
    /// # Cancel safety
    /// May be dropped at any time; the session is ended.
    pub async fn connect(server: &str, namespace: &str, instance: &str) -> Result<Self, Error> {
        let options = CohortOptions::default();
        let (server, namespace, instance) = (server.to_owned(), namespace.to_owned(), instance.to_owned());
        let place = Place { server, namespace, instance, upkeep: options.upkeep.clone() };
        // A connection is served by the runtime that it is made on: not the caller's, which may block or go.
        let connects = options.upkeep.spawn(connect(place));
        let driver = AbortOnDropHandle::new(connects).await.map_err(|failed| {
            Error::with_source(ErrorKind::Unavailable, "connect", "the coordinator's runtime was shut down", failed)
        })??;
        Ok(Self(Cohort::new(driver, options)))
    }
}

impl CohortBacked for ToyCoordinator {
    type Driver = ToyDriver;

    fn cohort(&self) -> &Cohort<ToyDriver> {
        &self.0
    }
}

impl DistributedCoordinator for ToyCoordinator {}

impl fmt::Debug for ToyCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { server, namespace, instance, .. } = &self.0.driver().place;
        f.debug_struct("ToyCoordinator")
            .field("server", server)
            .field("namespace", namespace)
            .field("instance", instance)
            .finish_non_exhaustive()
    }
}

async fn connect(place: Place) -> Result<ToyDriver, Error> {
    let (driver, other) = (ToyDriver::new(place.clone(), place.open().await?), place.open().await?);
    prove(&driver, ToyDriver::new(place, other)).await?;
    Ok(driver)
}

/// Two sessions of one's own exclude each other, on a key that nobody else uses.
async fn prove(first: &ToyDriver, second: ToyDriver) -> Result<(), Error> {
    let random = RandomState::new().hash_one(std::process::id());
    let scope = Scope::new(format!("coordinator proof {random:x}"))?;
    let take =
        async |driver: &ToyDriver| -> Result<Option<ToyGrant>, Error> { driver.try_lock(scope, Mode::Exclusive).await };
    if let (Some(held), None) = (take(first).await?, take(&second).await?) {
        first.unlock(scope, held).await?;
        if second.lock(scope, Mode::Shared, CancellationToken::new()).await?.is_some() {
            return Ok(());
        }
    }
    Err(Error::new(
        ErrorKind::Invalid,
        "connect",
        "two sessions of this server do not exclude each other: it is no lock",
    ))
}
