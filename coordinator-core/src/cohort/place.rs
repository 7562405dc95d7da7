use super::effects::Answer;
use super::inner::Inner;
use super::requests::unanswered;
use crate::{Driver, Scope, telemetry};
use std::task::{Context, Poll};
use std::{future::Future, pin::Pin, sync::Arc};
use tokio::sync::oneshot::Receiver;

/// A caller's place in the queue; dropping it gives the place, or the grant not yet received, back.
pub(super) struct Place<D: Driver> {
    pub(super) inner: Arc<Inner<D>>,
    pub(super) scope: Scope,
    pub(super) ticket: u64,
    pub(super) told: Receiver<Answer<D::Grant>>,
}

impl<D: Driver> Future for Place<D> {
    type Output = Answer<D::Grant>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.told).poll(cx).map(|told| told.unwrap_or_else(|_| Err(unanswered())))
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
            Err(_) => drop(self.inner.event(self.scope, |queue, _, effects| queue.cancel(self.ticket, effects))),
        }
    }
}
