use crate::servers::Answer;
use crate::session::{LIMIT, LeaseSession};
use coordinator_core::{Error, Mode, Scope, Session};
use etcd_client::{Compare, CompareOp, GetOptions, KvClient, Txn, TxnOp, TxnOpResponse, TxnResponse};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// A place in a scope's line that is served.
#[derive(Clone)]
pub struct Grant {
    pub(crate) place: Arc<Place>,
    _listed: Arc<Listed>,
}

impl Grant {
    pub(crate) fn new(scope: Scope, place: Place, held: &Held) -> Self {
        let place = Arc::new(place);
        let mut all = held.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.insert(scope, Arc::clone(&place));
        drop(all);
        drop(before); // it may be the last that holds a session
        let listed = Listed { held: held.clone(), scope, created: place.created };
        Self { place, _listed: Arc::new(listed) }
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant").field("mode", &self.place.mode).finish_non_exhaustive()
    }
}

impl coordinator_core::Grant for Grant {
    fn session(&self) -> &Session {
        &self.place.session.state.session
    }
}

/// What the instance holds now.
#[derive(Clone, Default)]
pub(crate) struct Held(Arc<Mutex<HashMap<Scope, Arc<Place>>>>);

impl Held {
    pub(crate) fn find(&self, scope: &Scope) -> Option<Arc<Place>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(scope).cloned()
    }
}

/// Dropped with the last copy of its grant, which by then may have a successor.
struct Listed {
    held: Held,
    scope: Scope,
    created: i64,
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut all = self.held.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_ours = all.get(&self.scope).is_some_and(|place| place.created == self.created);
        let gone = is_ours.then(|| all.remove(&self.scope));
        drop(all);
        drop(gone); // it may be the last that holds the session
    }
}

/// An instance's key in a scope's line, by the revision that created it.
///
/// Dropped without having been left, as after a failure, it is the session's to remove.
pub(crate) struct Place {
    pub(crate) session: LeaseSession,
    pub(crate) key: String,
    pub(crate) created: i64,
    pub(crate) mode: Mode,
    left: OnceLock<()>,
}

impl Place {
    pub(crate) fn new(session: LeaseSession, key: String, created: i64, mode: Mode) -> Self {
        Self { session, key, created, mode, left: OnceLock::new() }
    }

    /// Holds while the place is ours: keys have unique names, and a key that is made anew has another revision.
    pub(crate) fn is_ours(&self) -> Compare {
        Compare::create_revision(self.key.as_str(), CompareOp::Equal, self.created)
    }

    /// Does `then` if the place is still there, maybe several times.
    ///
    /// # Errors
    /// `Lost` as soon as the session is.
    pub(crate) async fn ask(
        &self,
        operation: &'static str,
        limit: Duration,
        then: Vec<TxnOp>,
    ) -> Result<Answer<TxnResponse>, Error> {
        let state = &self.session.state;
        let txn = Txn::new().when([self.is_ours()]).and_then(then);
        let asked = state.servers.ask_any(limit, |client| {
            let txn = txn.clone();
            async move { KvClient::txn(&mut client.kv_client(), txn).await }
        });
        tokio::select! {
            biased;
            reason = state.session.lost() => Err(Error::lost(operation, reason)),
            answer = asked => answer.map_err(|refused| state.told(operation, refused)),
        }
    }

    /// Whether it is there, asked after this call.
    pub(crate) async fn verify(&self) -> Result<(), Error> {
        let state = &self.session.state;
        let renewal = async { state.renew(LIMIT).await.map_err(|refused| state.told("verify", refused)) };
        // With a look, since a server answers a transaction of conditions alone from what it knew some time ago.
        let (answer, ()) = tokio::try_join!(self.ask("verify", LIMIT, vec![state.look()]), renewal)?;
        if answer.value.succeeded() { Ok(()) } else { Err(state.not_held("verify")) }
    }

    /// Deletes the key; whether it was there. Asked until it is answered, the limit is over, or the session lost.
    pub(crate) async fn leave(&self, operation: &'static str, limit: Duration) -> Result<bool, Error> {
        let answer = self.ask(operation, limit, vec![TxnOp::delete(self.key.as_str(), None)]).await?;
        // Of two requests the one that is answered may find what the other has done: nobody else knows the key, and the
        // lease, without which it would have gone, lives.
        let _ = self.left.set(()); // or by an earlier request
        let is_known = answer.value.succeeded() || !answer.is_first;
        Ok(is_known && self.session.state.session.loss().is_none())
    }

    /// Whether another instance waits: behind an exclusive place everybody does, behind a shared one the exclusive do.
    pub(crate) async fn is_wanted(&self, everybody: &str, exclusive: &str) -> Result<bool, Error> {
        let look = |prefix: &str| TxnOp::get(prefix, Some(GetOptions::new().with_prefix().with_count_only()));
        let (look, own) = match self.mode {
            Mode::Exclusive => (look(everybody), 1),
            Mode::Shared => (look(exclusive), 0),
        };
        let answer = self.ask("lock", LIMIT, vec![look]).await?.value;
        Ok(match answer.op_responses().first() {
            Some(TxnOpResponse::Get(found)) => found.count() > own,
            _ => true,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.left.get().is_none() {
            self.session.state.owe(std::mem::take(&mut self.key));
        }
    }
}
