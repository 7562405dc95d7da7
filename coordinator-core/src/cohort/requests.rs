//! What the driver is asked, and how its answers come back, also when it panics or is never run.

use super::{Granted, Inner, Request, ScopeQueue};
use crate::{Driver, Error, ErrorKind, Grant, Scope, Session, telemetry};
use std::sync::Arc;
use tokio::sync::oneshot;
use tracing::Instrument;

pub(super) type Told = oneshot::Receiver<Result<(), Error>>;

const UNANSWERED: &str = "the driver panicked, gave up, or its runtime was shut down";

impl<D: Driver> Inner<D> {
    /// Asks the driver; the outcome of an unlock is told.
    pub(super) fn request(self: &Arc<Self>, scope: Scope, request: Request<D::Grant>) -> Option<Told> {
        let (inner, after) = (Arc::clone(self), Arc::clone(self));
        match request {
            Request::Lock(mode, unwanted) => {
                let request = async move {
                    match unwanted {
                        None => inner.driver.try_lock(scope, mode).await,
                        // Apart, so that a try's task is small.
                        Some(unwanted) => Box::pin(inner.driver.lock(scope, mode, unwanted)).await,
                    }
                };
                self.run(request, move |answer| {
                    if let Ok(Some(grant)) = &answer {
                        after.hand_losses_on(grant.session());
                    }
                    after.event(scope, |queue, turn| queue.answered(answer, turn));
                });
                None
            }
            Request::Contended(Granted { grant, tenure, .. }, look) => {
                let request = async move { inner.driver.contended(scope, grant, look).await };
                self.run(request, move |answer| {
                    after.event(scope, |queue, turn| queue.probed(tenure, answer.unwrap_or(true), turn));
                });
                None
            }
            Request::Unlock(grant) => {
                let (tell, told) = oneshot::channel();
                let request = async move { inner.driver.unlock(scope, grant).await };
                self.run(request, move |outcome| {
                    telemetry::freed(scope, &outcome);
                    after.event(scope, ScopeQueue::freed);
                    let _ = tell.send(outcome); // nobody waits after a drop
                });
                Some(told)
            }
        }
    }

    /// Who queues behind leases of a lost session asks anew at once.
    fn hand_losses_on(self: &Arc<Self>, session: &Session) {
        if session.attend() {
            let (lost, inner) = (session.lost(), Arc::downgrade(self));
            drop(self.options.upkeep.spawn(async move {
                lost.await;
                if let Some(inner) = inner.upgrade() {
                    inner.everywhere(ScopeQueue::look_for_loss);
                }
            }));
        }
    }

    /// Runs a request of the driver to its end, and `then` with its answer.
    pub(super) fn run<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, Error>> + Send + 'static,
        then: impl FnOnce(Result<T, Error>) + Send + 'static,
    ) {
        // Made here, not inside the task: a runtime that is shut down drops the task unpolled.
        let mut reply = Reply { answer: None, then: Some(then) };
        let task = async move {
            reply.answer = Some(request.await);
            drop(reply);
        };
        drop(self.options.upkeep.spawn(task.in_current_span()));
    }

    /// Runs a request of the driver to its end, inline where there is no backend.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        operation: &'static str,
        request: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        if self.driver.without_backend().is_some() {
            return request.await;
        }
        let failed = |failed| Err(Error::with_source(ErrorKind::Unavailable, operation, UNANSWERED, failed));
        self.options.upkeep.spawn(request.in_current_span()).await.unwrap_or_else(failed)
    }
}

struct Reply<T, F: FnOnce(Result<T, Error>)> {
    answer: Option<Result<T, Error>>,
    then: Option<F>,
}

impl<T, F: FnOnce(Result<T, Error>)> Drop for Reply<T, F> {
    fn drop(&mut self) {
        if let Some(then) = self.then.take() {
            then(self.answer.take().unwrap_or_else(|| Err(unanswered())));
        }
    }
}

pub(super) fn unanswered() -> Error {
    Error::new(ErrorKind::Unavailable, "acquire", UNANSWERED)
}
