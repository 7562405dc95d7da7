use crate::{Error, ErrorKind, FencingToken, Session};
use async_trait::async_trait;
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
};
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
pub struct Release(Outcome);

#[derive(Debug)]
enum Outcome {
    Known(Option<Result<(), Error>>),
    Told(oneshot::Receiver<Result<(), Error>>),
}

impl Release {
    /// The outcome is known already.
    pub fn known(result: Result<(), Error>) -> Self {
        Self(Outcome::Known(Some(result)))
    }

    /// The outcome will be told.
    pub fn told(told: oneshot::Receiver<Result<(), Error>>) -> Self {
        Self(Outcome::Told(told))
    }
}

impl Future for Release {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let unanswered = || Error::new(ErrorKind::Unavailable, "release", "the backend did not confirm the release");
        match &mut self.0 {
            Outcome::Known(result) => Poll::Ready(result.take().unwrap_or_else(|| Err(unanswered()))),
            Outcome::Told(told) => Pin::new(told).poll(cx).map(|told| told.unwrap_or_else(|_| Err(unanswered()))),
        }
    }
}
