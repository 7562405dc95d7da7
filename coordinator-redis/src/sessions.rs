use crate::session::{Plan, RedisSession};
use coordinator_core::{Error, ErrorKind};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use std::sync::{Arc, Mutex, PoisonError};

/// The one session that holds the instance's scopes, begun anew when it is asked for after it was lost.
pub(crate) struct Sessions {
    plan: Arc<Plan>,
    state: Mutex<State>,
}

/// Absent → opening → open; → opening again once lost or failed; → closed for ever.
enum State {
    Absent,
    Opening(Opening),
    Closed,
}

/// One attempt, whose outcome answers everybody who came while it ran.
type Opening = Shared<BoxFuture<'static, Result<Arc<RedisSession>, Error>>>;

impl Sessions {
    pub(crate) fn new(plan: Arc<Plan>) -> Self {
        Self { plan, state: Mutex::new(State::Absent) }
    }

    pub(crate) fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    pub(crate) async fn current(&self) -> Result<Arc<RedisSession>, Error> {
        let opening = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            match &*state {
                State::Closed => return Err(Error::new(ErrorKind::ShutDown, "lock", "the coordinator was shut down")),
                State::Opening(opening) if serves(opening) => opening.clone(),
                State::Absent | State::Opening(_) => {
                    let opening = self.open();
                    *state = State::Opening(opening.clone());
                    opening
                }
            }
        };
        opening.await
    }

    fn open(&self) -> Opening {
        let plan = Arc::clone(&self.plan);
        let task = self.plan.connector.upkeep.spawn(async move { RedisSession::open(&plan).await });
        let ended = |error| Error::with_source(ErrorKind::Unavailable, "connect", "the attempt was ended", error);
        task.map(move |joined| joined.map_err(ended).and_then(|outcome| outcome)).boxed().shared()
    }

    /// Ends the session; its leases are lost.
    pub(crate) async fn close(&self) {
        let state = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, State::Closed)
        };
        if let State::Opening(opening) = state
            && let Ok(session) = opening.await
        {
            session.close().await;
        }
    }
}

/// Still on its way, or open and live.
fn serves(opening: &Opening) -> bool {
    opening.peek().is_none_or(|outcome| outcome.as_ref().is_ok_and(|session| session.session().loss().is_none()))
}
