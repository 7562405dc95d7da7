use super::{inner::Inner, requests::Told, slot::Granted};
use crate::{Driver, Error, ErrorKind, FencingToken, Grant, Hold, Mode, Release, Scope, Session, telemetry};
use async_trait::async_trait;
use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};
use tokio::sync::oneshot;
use tracing::Instrument;

/// A lease's half of the cohort.
pub(super) struct Holding<D: Driver> {
    inner: Arc<Inner<D>>,
    scope: Scope,
    mode: Mode,
    granted: Granted<D::Grant>,
    since: Instant,
    released: AtomicBool,
}

impl<D: Driver> Holding<D> {
    pub(super) fn new(
        inner: Arc<Inner<D>>,
        scope: Scope,
        mode: Mode,
        granted: Granted<D::Grant>,
        since: Instant,
    ) -> Self {
        Self { inner, scope, mode, granted, since, released: AtomicBool::new(false) }
    }

    fn leave(&self) -> Option<Told> {
        if self.released.swap(true, Ordering::AcqRel) {
            return None;
        }
        let told = self.inner.leave(self.scope, self.granted.tenure);
        telemetry::left(self.scope, self.mode, self.since.elapsed());
        told
    }

    /// Runs a request of the driver to its end, inline where there is no backend.
    async fn ask<T, F>(
        &self,
        operation: &'static str,
        request: impl FnOnce(Arc<Inner<D>>, D::Grant) -> F,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let request = request(Arc::clone(&self.inner), self.granted.grant.clone());
        if self.inner.driver.without_backend().is_some() {
            return request.await;
        }
        self.inner.ask(operation, request).await
    }
}

impl<D: Driver> Inner<D> {
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        operation: &'static str,
        request: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
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
        let scope = self.scope;
        self.ask("verify", |inner, grant| async move { inner.driver.verify(scope, grant).await }).await
    }

    async fn fence(&self) -> Result<FencingToken, Error> {
        let scope = self.scope;
        self.ask("fence", |inner, grant| async move { inner.driver.fence(scope, grant).await }).await
    }

    fn release(&self) -> Release {
        let known = self.session().ensure_live("release");
        match (self.leave(), known) {
            (_, Err(lost)) => Release::known(Err(lost)),
            (Some(told), Ok(())) => Release::told(told),
            (None, Ok(())) if self.inner.driver.without_backend().is_some() => Release::known(Ok(())),
            // Handed on inside the instance: an answer of the session tells whether it was held until now.
            (None, Ok(())) => {
                let (tell, told) = oneshot::channel();
                let (inner, grant) = (Arc::clone(&self.inner), self.granted.grant.clone());
                drop(self.inner.options.upkeep.spawn(async move {
                    let _ = tell.send(inner.driver.confirm(grant).await); // the caller may have gone
                }));
                Release::told(told)
            }
        }
    }
}

impl<D: Driver> Drop for Holding<D> {
    fn drop(&mut self) {
        self.leave();
    }
}
