//! A caller while it waits, and while it holds.

use super::{Answer, Granted, Inner, Told, unanswered};
use crate::{Driver, Error, FencingToken, Hold, Mode, Scope, Session, telemetry};
use async_trait::async_trait;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{sync::Arc, time::Instant};
use tokio::sync::oneshot;

/// A caller's place in the queue; dropping it gives the place, or the grant not yet received, back.
pub(super) struct Place<D: Driver> {
    pub(super) inner: Arc<Inner<D>>,
    pub(super) scope: Scope,
    pub(super) ticket: u64,
    pub(super) told: oneshot::Receiver<Answer<D::Grant>>,
}

impl<D: Driver> Place<D> {
    pub(super) async fn answer(mut self) -> Answer<D::Grant> {
        telemetry::waiters(1.0);
        (&mut self.told).await.unwrap_or_else(|_| Err(unanswered()))
    }
}

impl<D: Driver> Drop for Place<D> {
    fn drop(&mut self) {
        telemetry::waiters(-1.0);
        if self.told.is_terminated() {
            return;
        }
        self.told.close(); // from here on an answer goes back to who sends it, who gives it back
        match self.told.try_recv() {
            Ok(Ok(Some(granted))) => drop(self.inner.leave(self.scope, granted.tenure)),
            Ok(_) => {}
            Err(_) => drop(self.inner.event(self.scope, |queue, turn| queue.cancel(self.ticket, turn))),
        }
    }
}

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

#[async_trait]
impl<D: Driver> Hold for Holding<D> {
    fn session(&self) -> &Session {
        &self.granted.session
    }

    async fn verify(&self) -> Result<(), Error> {
        let (inner, scope, grant) = (Arc::clone(&self.inner), self.scope, self.granted.grant.clone());
        self.inner.ask("verify", async move { inner.driver.verify(scope, grant).await }).await
    }

    async fn fence(&self) -> Result<FencingToken, Error> {
        let (inner, scope, grant) = (Arc::clone(&self.inner), self.scope, self.granted.grant.clone());
        self.inner.ask("fence", async move { inner.driver.fence(scope, grant).await }).await
    }

    fn release(&self) -> Result<Option<Told>, Error> {
        let known = self.session().ensure_live("release");
        let told = self.leave();
        known?;
        if told.is_some() || self.inner.driver.without_backend().is_some() {
            return Ok(told);
        }
        // Handed on inside the instance: an answer of the session tells whether it was held until now.
        let (tell, told) = oneshot::channel();
        let (inner, grant) = (Arc::clone(&self.inner), self.granted.grant.clone());
        let request = async move { inner.driver.confirm(grant).await };
        self.inner.run(request, |outcome| drop(tell.send(outcome))); // the caller may have gone
        Ok(Some(told))
    }
}

impl<D: Driver> Drop for Holding<D> {
    fn drop(&mut self) {
        self.leave();
    }
}
