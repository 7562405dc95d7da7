use super::{
    inner::Inner,
    slot::{Abandoned, Answer, Granted, Slot},
};
use crate::{Driver, Scope, telemetry};
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

/// A caller's place in the queue; dropping it gives the place, or the grant not yet received, back.
pub(super) struct Place<D: Driver> {
    inner: Arc<Inner<D>>,
    scope: Scope,
    ticket: u64,
    slot: Arc<Slot<D::Grant>>,
    _counted: telemetry::Waiter,
}

impl<D: Driver> Place<D> {
    pub(super) fn new(inner: Arc<Inner<D>>, scope: Scope, ticket: u64, slot: Arc<Slot<D::Grant>>) -> Self {
        Self { inner, scope, ticket, slot, _counted: telemetry::Waiter::begin() }
    }
}

impl<D: Driver> Future for Place<D> {
    type Output = Answer<D::Grant>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.slot.poll(cx)
    }
}

impl<D: Driver> Drop for Place<D> {
    fn drop(&mut self) {
        if self.slot.is_taken() {
            return;
        }
        // Settled only under the shard's lock: what is read there stays true.
        let (abandoned, _) = self.inner.event(self.scope, |queue, _, _, effects| {
            let abandoned = self.slot.abandon();
            match &abandoned {
                Abandoned::Granted(Granted { tenure, .. }) => queue.leave(*tenure, effects),
                Abandoned::Waiting(_) => queue.cancel(self.ticket, effects),
                Abandoned::Answered => {}
            }
            abandoned
        });
        drop(abandoned);
    }
}
