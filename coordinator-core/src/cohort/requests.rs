//! What the driver is asked, and how its answers come back, also when it panics or is never run.

use super::effects::Request;
use super::inner::Inner;
use crate::{Driver, Error, ErrorKind, Grant, Scope, telemetry};
use std::{future::Future, sync::Arc};
use tokio::sync::oneshot;
use tracing::Instrument;

pub(super) type Told = oneshot::Receiver<Result<(), Error>>;

impl<G: Grant> Request<G> {
    /// Asks the driver; the outcome of an unlock is told.
    pub(super) fn make<D: Driver<Grant = G>>(self, inner: &Arc<Inner<D>>, scope: Scope) -> Option<Told> {
        let (asked, after) = (Arc::clone(inner), Arc::clone(inner));
        match self {
            Self::TryLock { mode } => {
                let request = async move { asked.driver.try_lock(scope, mode).await };
                inner.run(request, move |answer| after.answered(scope, answer));
            }
            Self::Lock { mode, unwanted } => {
                let request = async move { asked.driver.lock(scope, mode, unwanted).await };
                inner.run(request, move |answer| after.answered(scope, answer));
            }
            Self::Contended { grant, tenure, look } => {
                let request = async move { asked.driver.contended(scope, grant, look).await };
                inner.run(request, move |answer| {
                    let contended = answer.unwrap_or(true);
                    after.event(scope, |queue, _, effects| queue.probed(tenure, contended, &after.options, effects));
                });
            }
            Self::Unlock { grant } => {
                let (tell, told) = oneshot::channel();
                let request = async move { asked.driver.unlock(scope, grant).await };
                inner.run(request, move |outcome| {
                    telemetry::freed(scope, &outcome);
                    after.event(scope, |queue, _, effects| queue.freed(effects));
                    let _ = tell.send(outcome); // nobody waits after a drop
                });
                return Some(told);
            }
        }
        None
    }
}

impl<D: Driver> Inner<D> {
    fn answered(self: &Arc<Self>, scope: Scope, answer: Result<Option<D::Grant>, Error>) {
        if let Ok(Some(grant)) = &answer
            && grant.session().attend()
        {
            self.hand_losses_on(grant.session().clone());
        }
        self.event(scope, |queue, tenure, effects| queue.answered(answer, tenure, &self.options, effects));
    }

    /// Runs a request of the driver to its end, and `then` with its answer.
    pub(super) fn run<T: Send + 'static>(
        &self,
        request: impl Future<Output = Result<T, Error>> + Send + 'static,
        then: impl FnOnce(Result<T, Error>) + Send + 'static,
    ) {
        // Made here, not inside the task: a runtime that is shut down drops the task unpolled.
        let reply = Reply { answer: None, then: Some(then) };
        let task = async move {
            let answer = request.await;
            reply.is(answer);
        };
        drop(self.options.upkeep.spawn(task.in_current_span()));
    }
}

struct Reply<T, F: FnOnce(Result<T, Error>)> {
    answer: Option<Result<T, Error>>,
    then: Option<F>,
}

impl<T, F: FnOnce(Result<T, Error>)> Reply<T, F> {
    fn is(mut self, answer: Result<T, Error>) {
        self.answer = Some(answer);
    }
}

impl<T, F: FnOnce(Result<T, Error>)> Drop for Reply<T, F> {
    fn drop(&mut self) {
        if let Some(then) = self.then.take() {
            then(self.answer.take().unwrap_or_else(|| Err(unanswered())));
        }
    }
}

pub(super) fn unanswered() -> Error {
    let message = "the driver panicked, or its runtime was shut down";
    Error::new(ErrorKind::Unavailable, "acquire", message)
}
