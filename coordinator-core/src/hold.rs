use crate::{Error, ErrorKind, FencingToken, Session};
use async_trait::async_trait;
use tokio::sync::oneshot;

/// The backend's half of a [`Lease`](crate::Lease); dropping it frees the scope, without blocking.
#[async_trait]
pub trait Hold: Send + Sync + 'static {
    /// What the lease lives on.
    fn session(&self) -> &Session;

    /// Asks the backend, on the holding session, whether the scope is held.
    async fn verify(&self) -> Result<(), Error>;

    /// A new token, in one step of the backend that fails with `Lost` if the scope is not held.
    async fn fence(&self) -> Result<FencingToken, Error>;

    /// Starts the release at once; what is returned only confirms. A later call, and the drop, do nothing.
    fn release(&self) -> Release;
}

/// The outcome of a release that has been started; dropping it takes nothing back.
#[derive(Debug)]
pub struct Release(Result<oneshot::Receiver<Result<(), Error>>, Result<(), Error>>);

impl Release {
    /// The outcome is known already.
    pub fn known(outcome: Result<(), Error>) -> Self {
        Self(Err(outcome))
    }

    /// The outcome will be told.
    pub fn told(told: oneshot::Receiver<Result<(), Error>>) -> Self {
        Self(Ok(told))
    }

    pub(crate) async fn outcome(self) -> Result<(), Error> {
        match self.0 {
            Err(known) => known,
            Ok(told) => told.await.unwrap_or_else(|_| {
                Err(Error::new(ErrorKind::Unavailable, "release", "the backend did not confirm the release"))
            }),
        }
    }
}
