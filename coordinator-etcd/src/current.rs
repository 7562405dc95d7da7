use crate::session::{LeaseSession, Plan};
use coordinator_core::{Error, ErrorKind, LossReason};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The one session of the instance, opened anew when it is asked for after it was lost.
pub(crate) struct Current {
    plan: Plan,
    state: Mutex<State>,
}

/// Absent → opening → open; → opening again once lost or failed; → closed for ever.
enum State {
    Absent,
    Opening(Opening),
    Closed,
}

/// One attempt, whose outcome answers everybody who came while it ran.
type Opening = Shared<BoxFuture<'static, Result<LeaseSession, Error>>>;

impl Current {
    pub(crate) fn new(plan: Plan) -> Self {
        Self { plan, state: Mutex::new(State::Absent) }
    }

    pub(crate) async fn session(&self) -> Result<LeaseSession, Error> {
        let opening = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            match &*state {
                State::Closed => return Err(Error::new(ErrorKind::ShutDown, "lock", "the coordinator was shut down")),
                State::Opening(opening) => match opening.peek() {
                    Some(Ok(open)) if open.state.session.loss().is_none() => return Ok(open.clone()),
                    None => opening.clone(),
                    Some(_) => self.open_in(&mut state),
                },
                State::Absent => self.open_in(&mut state),
            }
        };
        opening.await
    }

    fn open_in(&self, state: &mut State) -> Opening {
        let (plan, upkeep) = (self.plan.clone(), self.plan.upkeep.clone());
        let task = upkeep.spawn(async move { LeaseSession::open(&plan).await });
        let ended = |error| Error::with_source(ErrorKind::Unavailable, "connect", "the attempt was ended", error);
        let opening = task.map(move |joined| joined.map_err(ended).and_then(|outcome| outcome)).boxed().shared();
        *state = State::Opening(opening.clone());
        opening
    }

    /// Ends the session; its leases are lost. Resolves when the server knows, or after a while.
    pub(crate) async fn close(&self, limit: Duration) {
        let state = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, State::Closed)
        };
        if let State::Opening(opening) = state
            && let Some(Ok(open)) = opening.peek()
        {
            let _ = tokio::time::timeout(limit, open.end(LossReason::ShutDown)).await; // it goes on by itself
        }
    }
}
