//! What the driver is asked, and how its answers come back, also when it panics or is never run.

use super::{effects::Request, inner::Inner};
use crate::{Driver, Error, ErrorKind, Grant, Scope, telemetry};
use std::sync::Arc;
use tokio::sync::oneshot;

pub(super) type Told = oneshot::Receiver<Result<(), Error>>;

impl<G: Grant> Request<G> {
    /// Asks the driver; only the outcome of an unlock is told to a caller.
    pub(super) fn make<D: Driver<Grant = G>>(self, inner: &Arc<Inner<D>>, scope: Scope) -> Option<Told> {
        // The answer is made here, not inside the task: a runtime that is shut down drops the task unpolled.
        let owned = Arc::clone(inner);
        match self {
            Self::TryLock { mode } => {
                let answer = Answer { inner: owned, scope, result: None };
                inner.spawn(async move {
                    let result = answer.inner.driver.try_lock(scope, mode).await;
                    answer.is(result);
                });
                None
            }
            Self::Lock { mode, wanted } => {
                let answer = Answer { inner: owned, scope, result: None };
                inner.spawn(async move {
                    let result = answer.inner.driver.lock(scope, mode, wanted).await;
                    answer.is(result);
                });
                None
            }
            Self::Contended { grant, tenure, look } => {
                let looked = Looked { inner: owned, scope, tenure, contended: true };
                inner.spawn(async move {
                    let contended = looked.inner.driver.contended(scope, grant, look).await;
                    looked.saw(contended.unwrap_or(true));
                });
                None
            }
            Self::Unlock { grant } => {
                let (tell, told) = oneshot::channel();
                let freed = Freed { inner: owned, scope, result: None, tell: Some(tell) };
                inner.spawn(async move {
                    let result = freed.inner.driver.unlock(scope, grant).await;
                    freed.is(result);
                });
                Some(told)
            }
        }
    }
}

fn unanswered() -> Error {
    Error::new(ErrorKind::Unavailable, "acquire", "the driver panicked, or its runtime was shut down")
}

/// Brings the driver's answer into the queue, also when it panicked or was never run.
struct Answer<D: Driver> {
    inner: Arc<Inner<D>>,
    scope: Scope,
    result: Option<Result<Option<D::Grant>, Error>>,
}

impl<D: Driver> Answer<D> {
    fn is(mut self, result: Result<Option<D::Grant>, Error>) {
        self.result = Some(result);
    }
}

impl<D: Driver> Drop for Answer<D> {
    fn drop(&mut self) {
        let result = self.result.take().unwrap_or_else(|| Err(unanswered()));
        if let Ok(Some(grant)) = &result
            && grant.session().attend()
        {
            self.inner.hand_losses_on(grant.session().clone());
        }
        self.inner.event(self.scope, |queue, tenure, rules, effects| queue.answered(result, tenure, rules, effects));
    }
}

struct Looked<D: Driver> {
    inner: Arc<Inner<D>>,
    scope: Scope,
    tenure: u64,
    contended: bool,
}

impl<D: Driver> Looked<D> {
    fn saw(mut self, contended: bool) {
        self.contended = contended;
    }
}

impl<D: Driver> Drop for Looked<D> {
    fn drop(&mut self) {
        let (tenure, contended) = (self.tenure, self.contended);
        self.inner.event(self.scope, |queue, _, rules, effects| queue.probed(tenure, contended, rules, effects));
    }
}

struct Freed<D: Driver> {
    inner: Arc<Inner<D>>,
    scope: Scope,
    result: Option<Result<(), Error>>,
    tell: Option<oneshot::Sender<Result<(), Error>>>,
}

impl<D: Driver> Freed<D> {
    fn is(mut self, result: Result<(), Error>) {
        self.result = Some(result);
    }
}

impl<D: Driver> Drop for Freed<D> {
    fn drop(&mut self) {
        let result = self.result.take().unwrap_or_else(|| Err(unanswered()));
        telemetry::freed(self.scope, &result);
        self.inner.event(self.scope, |queue, _, _, effects| queue.freed(effects));
        if let Some(tell) = self.tell.take() {
            let _ = tell.send(result); // nobody waits after a drop
        }
    }
}
