use crate::batch::Op;
use crate::connect::Connector;
use crate::holding::Holding;
use crate::keys::Keys;
use crate::revocation::{listen, notify};
use crate::session::{open, random};
use crate::settings::Settings;
use coordinator_core::{Error, ErrorKind, LossReason, Mode, Scope};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use std::sync::{Arc, Mutex, PoisonError};

/// The one session that holds the instance's scopes, opened anew when it is asked for after it was lost.
pub(crate) struct Primary {
    connector: Arc<Connector>,
    settings: Settings,
    /// What it listens on.
    channel: String,
    state: Mutex<State>,
}

/// Absent → opening → open; → opening again once lost or failed; → closed for ever.
enum State {
    Absent,
    Opening(Opening),
    Closed,
}

/// One attempt, whose outcome answers everybody who came while it ran.
type Opening = Shared<BoxFuture<'static, Result<Incarnation, Error>>>;

#[derive(Clone)]
pub(crate) struct Incarnation {
    pub(crate) holding: Holding,
    /// A random key that this session holds as long as it lives: who sees it sees this coordinator's locks.
    pub(crate) identity: i64,
    pub(crate) lock_table: usize,
}

impl Primary {
    pub(crate) fn new(connector: Arc<Connector>, settings: Settings, channel: String) -> Self {
        Self { connector, settings, channel, state: Mutex::new(State::Absent) }
    }

    pub(crate) async fn current(&self) -> Result<Incarnation, Error> {
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
        let (connector, settings, channel) = (Arc::clone(&self.connector), self.settings.clone(), self.channel.clone());
        let task = self.connector.upkeep.spawn(async move {
            let opened = open(&connector, &settings).await?;
            let lock_table = opened.lock_table;
            listen(&opened.client, &channel).await?;
            let holding = Holding::start(opened, &settings, &connector.upkeep).await?;
            let identity = random()?.cast_signed();
            holding.ask(Op::Take(Mode::Exclusive), Keys { scope: identity, turnstile: identity }).await?;
            Ok(Incarnation { holding, identity, lock_table })
        });
        let ended = |error| Error::with_source(ErrorKind::Unavailable, "connect", "the attempt was ended", error);
        task.map(move |joined| joined.map_err(ended).and_then(|outcome| outcome)).boxed().shared()
    }

    /// Asks every instance that holds the scope to give up.
    pub(crate) async fn revoke(&self, scope: &Scope) -> Result<(), Error> {
        notify(self.current().await?.holding.client(), &self.channel, scope).await
    }

    /// Ends the session; its leases are lost.
    pub(crate) fn close(&self) {
        let state = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *state, State::Closed)
        };
        if let State::Opening(opening) = state
            && let Some(Ok(open)) = opening.peek()
        {
            open.holding.session().lose(LossReason::ShutDown);
        }
    }
}

/// Still on its way, or open and live.
fn serves(opening: &Opening) -> bool {
    opening.peek().is_none_or(|outcome| outcome.as_ref().is_ok_and(|open| open.holding.session().loss().is_none()))
}
