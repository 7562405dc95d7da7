use super::effects::Granted;
use super::inner::Inner;
use super::requests::Told;
use crate::{Driver, Error, ErrorKind, FencingToken, Grant, Hold, Mode, Release, Scope, Session, telemetry};
use async_trait::async_trait;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{future::Future, sync::Arc, time::Instant};
use tokio::sync::oneshot;
use tracing::Instrument;

/// A lease's half of the cohort.
pub(super) struct Holding<D: Driver> {
    pub(super) inner: Arc<Inner<D>>,
    pub(super) scope: Scope,
    pub(super) mode: Mode,
    pub(super) granted: Granted<D::Grant>,
    pub(super) since: Instant,
    pub(super) released: AtomicBool,
}

impl<D: Driver> Holding<D> {
    fn leave(&self) -> Option<Told> {
        if self.released.swap(true, Ordering::AcqRel) {
            return None;
        }
        let told = self.inner.leave(self.scope, self.granted.tenure);
        telemetry::left(self.scope, self.mode, self.since.elapsed());
        told
    }
}

impl<D: Driver> Inner<D> {
    /// Runs a request of the driver to its end, inline where there is no backend.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        operation: &'static str,
        request: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        if self.driver.without_backend().is_some() {
            return request.await;
        }
        self.options.upkeep.spawn(request.in_current_span()).await.unwrap_or_else(|failed| {
            let message = "the driver panicked, or its runtime was shut down";
            Err(Error::with_source(ErrorKind::Unavailable, operation, message, failed))
        })
    }
}

#[async_trait]
impl<D: Driver> Hold for Holding<D> {
    fn session(&self) -> &Session {
        self.granted.grant.session()
    }

    async fn verify(&self) -> Result<(), Error> {
        let (inner, scope, grant) = (Arc::clone(&self.inner), self.scope, self.granted.grant.clone());
        self.inner.ask("verify", async move { inner.driver.verify(scope, grant).await }).await
    }

    async fn fence(&self) -> Result<FencingToken, Error> {
        let (inner, scope, grant) = (Arc::clone(&self.inner), self.scope, self.granted.grant.clone());
        self.inner.ask("fence", async move { inner.driver.fence(scope, grant).await }).await
    }

    fn release(&self) -> Release {
        let known = self.session().ensure_live("release");
        match (self.leave(), known) {
            (Some(told), Ok(())) => Release::told(told),
            // Handed on inside the instance: an answer of the session tells whether it was held until now.
            (None, Ok(())) if self.inner.driver.without_backend().is_none() => {
                let (tell, told) = oneshot::channel();
                let (inner, grant) = (Arc::clone(&self.inner), self.granted.grant.clone());
                let request = async move { inner.driver.confirm(grant).await };
                self.inner.run(request, |outcome| drop(tell.send(outcome))); // the caller may have gone
                Release::told(told)
            }
            (_, known) => Release::known(known),
        }
    }
}

impl<D: Driver> Drop for Holding<D> {
    fn drop(&mut self) {
        self.leave();
    }
}
