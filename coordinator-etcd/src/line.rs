//! How a place in a scope's line is taken, and when it is served.
//!
//! A request that puts a key is sent once, to one server. If its answer does not come, the session begins a new epoch and
//! looks for the key, which nobody asks for twice: that is the truth about it, also while a server that is cut off still
//! carries the request.

use crate::error::is_passing;
use crate::grant::Place;
use crate::keys::Line;
use crate::servers::Refused;
use crate::session::{LIMIT, LeaseSession};
use coordinator_core::{Error, ErrorKind, Mode};
use etcd_client::{Compare, GetOptions, ResponseHeader, SortOrder, SortTarget, Txn, TxnOp, TxnOpResponse, TxnResponse};
use std::time::Duration;

/// How long one server has to put a key: longer than one that is only busy needs, since the question what became of it
/// makes others start again.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often a key is put anew that was not there.
const ATTEMPTS: usize = 4;

/// Where a place stands.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    Served,
    /// This key's end is to be waited for.
    Behind(String),
    /// The place is not there any more: its lease has ended, or somebody deleted it.
    Gone,
}

impl Line {
    /// Takes a place if that is served at once.
    pub(crate) async fn take(&self, session: &LeaseSession, mode: Mode) -> Result<Option<Place>, Error> {
        let open = self.is_open_to(mode);
        Ok(self.put(session, mode, Some(&open), None).await?.map(|(place, _)| place))
    }

    /// Takes the last place.
    pub(crate) async fn join(&self, session: &LeaseSession, mode: Mode) -> Result<(Place, Turn), Error> {
        let before = GetOptions::new().with_prefix().with_keys_only().with_limit(1);
        let before = before.with_sort(SortTarget::Create, SortOrder::Descend);
        let look = TxnOp::get(self.in_the_way_of(mode), Some(before));
        let joined = self.put(session, mode, None, Some(look)).await?;
        let (place, answer) =
            joined.ok_or_else(|| unfit("the server put no key, and says that nothing is in the way"))?;
        match answer {
            Some(answer) => Ok((place, turn(answer.op_responses().first()))),
            None => self.turn(&place).await.map(|turn| (place, turn)),
        }
    }

    /// Where the place stands now.
    pub(crate) async fn turn(&self, place: &Place) -> Result<Turn, Error> {
        let before = GetOptions::new().with_prefix().with_keys_only().with_limit(1);
        let before = before.with_sort(SortTarget::Create, SortOrder::Descend);
        let before = before.with_max_create_revision(place.created - 1);
        let look = TxnOp::get(self.in_the_way_of(place.mode), Some(before));
        let answer = place.ask("lock", LIMIT, vec![look]).await?.value;
        if answer.succeeded() { Ok(turn(answer.op_responses().first())) } else { Ok(Turn::Gone) }
    }

    /// Puts a key if that condition holds, after the look; with the answer, if there was one.
    async fn put(
        &self,
        session: &LeaseSession,
        mode: Mode,
        only_if: Option<&Compare>,
        look: Option<TxnOp>,
    ) -> Result<Option<(Place, Option<TxnResponse>)>, Error> {
        let state = &session.state;
        let place = |key, created| Place::new(session.clone(), key, created, mode);
        let mut last = unfit("the session began new epochs again and again");
        for _ in 0..ATTEMPTS {
            let (key, epoch) = (state.place(self, mode), state.epoch());
            let when: Vec<_> = std::iter::once(state.is_in(epoch)).chain(only_if.cloned()).collect();
            let then: Vec<_> = look.iter().cloned().chain([state.put(&key)]).collect();
            let txn = Txn::new().when(when).and_then(then).or_else([state.look()]);
            let asked = state.servers.ask_once(PATIENCE, |client| {
                let txn = txn.clone();
                async move { client.kv_client().txn(txn).await }
            });
            let asked = tokio::select! {
                biased;
                reason = state.session.lost() => return Err(Error::lost("lock", reason)),
                asked = asked => asked,
            };
            match asked {
                Ok(answer) if answer.succeeded() => {
                    let created = answer.header().map_or(0, ResponseHeader::revision);
                    return Ok(Some((place(key, created), Some(answer))));
                }
                Ok(answer) => {
                    let is_stale = state.learn(epoch, answer.op_responses().first())?;
                    if !is_stale && only_if.is_some() {
                        return Ok(None);
                    }
                }
                Err(Refused::Failed(error)) if !is_passing(&error) => {
                    return Err(state.told("lock", Refused::Failed(error)));
                }
                Err(refused) => {
                    last = refused.told("lock");
                    if last.kind() != ErrorKind::Unavailable {
                        return Err(last);
                    }
                    if let Some(created) = state.settle(&key).await? {
                        return Ok(Some((place(key, created), None)));
                    }
                }
            }
        }
        Err(last)
    }
}

fn turn(before: Option<&TxnOpResponse>) -> Turn {
    let Some(TxnOpResponse::Get(found)) = before else { return Turn::Gone };
    match found.kvs().first() {
        None => Turn::Served,
        Some(key) => Turn::Behind(String::from_utf8_lossy(key.key()).into_owned()),
    }
}

fn unfit(why: &str) -> Error {
    Error::new(ErrorKind::Unavailable, "lock", why)
}
