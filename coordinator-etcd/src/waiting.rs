use crate::current::Current;
use crate::grant::Place;
use crate::keys::Line;
use crate::line::Turn;
use crate::session::{LIMIT, LeaseSession};
use crate::watcher::Watcher;
use coordinator_core::{CancellationToken, Error, Mode};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;

/// Between questions to servers that do not answer.
const PAUSE: Duration = Duration::from_millis(200);

/// How an instance waits in a scope's line.
pub(crate) struct Waiting {
    pub(crate) current: Arc<Current>,
    pub(crate) watcher: Watcher,
    pub(crate) outlast_outages: bool,
}

/// What became of one place.
enum Outcome {
    Served(Place),
    Unwanted,
    /// It is gone, or its session is: another is taken, last in the line.
    Anew,
}

impl Waiting {
    pub(crate) async fn wait(
        &self,
        line: &Line,
        mode: Mode,
        unwanted: &CancellationToken,
    ) -> Result<Option<Place>, Error> {
        while !unwanted.is_cancelled() {
            let outcome = match self.current.session().await {
                Ok(session) => match self.stand(&session, line, mode, unwanted).await {
                    Err(error) if session.state.session.loss().is_some() && !is_over(&error) => Ok(Outcome::Anew),
                    outcome => outcome,
                },
                Err(error) => Err(error),
            };
            match outcome {
                Ok(Outcome::Served(place)) => return Ok(Some(place)),
                Ok(Outcome::Unwanted) => break,
                Ok(Outcome::Anew) => {}
                Err(error) if self.outlast_outages && error.is_retryable() => {
                    tokio::select! {
                        () = unwanted.cancelled() => {}
                        () = sleep(PAUSE) => {}
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    async fn stand(
        &self,
        session: &LeaseSession,
        line: &Line,
        mode: Mode,
        unwanted: &CancellationToken,
    ) -> Result<Outcome, Error> {
        let (place, mut turn) = line.join(session, mode).await?;
        while let Turn::Behind(before) = turn {
            match self.until_it_moves(line, &place, before, unwanted).await {
                Ok(Some(moved)) => turn = moved,
                Ok(None) => return place.leave("lock", LIMIT).await.map(|_| Outcome::Unwanted),
                Err(error) => return Err(error),
            }
        }
        // E2: a place that is served on a lease that is lost is no grant.
        let is_served = turn == Turn::Served && session.state.session.loss().is_none();
        Ok(if is_served { Outcome::Served(place) } else { Outcome::Anew })
    }

    /// Where the place stands once that key is gone; `None` when nobody wants it any more.
    async fn until_it_moves(
        &self,
        line: &Line,
        place: &Place,
        before: String,
        unwanted: &CancellationToken,
    ) -> Result<Option<Turn>, Error> {
        let state = &place.session.state;
        loop {
            let mut watch = self.watcher.key(before.clone());
            let mut is_watched = true;
            while is_watched {
                let mut is_late = false;
                tokio::select! {
                    biased;
                    () = unwanted.cancelled() => return Ok(None),
                    reason = state.session.lost() => return Err(Error::lost("lock", reason)),
                    changed = watch.changed() => is_watched = changed,
                    () = sleep(state.ttl / 3) => is_late = true,
                }
                let asked = tokio::select! {
                    biased;
                    () = unwanted.cancelled() => return Ok(None),
                    asked = line.turn(place) => asked,
                };
                match asked {
                    Ok(turn) if turn == Turn::Behind(before.clone()) => {}
                    Ok(turn) => {
                        if is_late {
                            watch.failed();
                        }
                        return Ok(Some(turn));
                    }
                    Err(error) if error.is_retryable() => {}
                    Err(error) => return Err(error),
                }
            }
            sleep(PAUSE).await;
        }
    }
}

/// Whether there will be no other session.
fn is_over(error: &Error) -> bool {
    error.kind() == coordinator_core::ErrorKind::ShutDown
}
