use crate::error::unanswered;
use crate::session::ToySession;
use crate::wire::{Reply, Request, Seen};
use coordinator_core::{
    CancellationToken, Driver, Error, ErrorKind, FencingToken, Grant, Inspection, Look, LossReason, Mode, Party, Scope,
    Session, Upkeep,
};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One session with the server, opened anew when it is lost.
#[derive(Debug)]
pub struct ToyDriver {
    pub(crate) place: Place,
    state: Mutex<State>,
}

/// Where an instance lives.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) server: String,
    pub(crate) namespace: String,
    pub(crate) instance: String,
    pub(crate) upkeep: Upkeep,
}

#[derive(Debug)]
enum State {
    /// Another one in its place after a loss, at the next request.
    Open(Arc<ToySession>),
    Closed,
}

/// A scope held at the server.
#[derive(Clone, Debug)]
pub struct ToyGrant(Arc<ToySession>);

impl Grant for ToyGrant {
    fn session(&self) -> &Session {
        self.0.session()
    }
}

impl Place {
    pub(crate) async fn open(&self) -> Result<ToySession, Error> {
        ToySession::open(&self.server, &self.instance, &self.upkeep).await
    }

    /// What the server knows a scope by: its digest.
    pub(crate) fn key(&self, scope: Scope) -> String {
        let mut key = format!("{}/", self.namespace);
        for byte in scope.digest() {
            let _ = write!(key, "{byte:02x}"); // to a string
        }
        key
    }
}

impl ToyDriver {
    pub(crate) fn new(place: Place, session: ToySession) -> Self {
        Self { place, state: Mutex::new(State::Open(Arc::new(session))) }
    }

    /// A session that is not known to be lost. Of two that are opened at the same time one is closed again.
    async fn current(&self) -> Result<Arc<ToySession>, Error> {
        let known = match &*self.state() {
            State::Open(session) => Arc::clone(session),
            State::Closed => return Err(closed()),
        };
        if known.session().loss().is_none() {
            return Ok(known);
        }
        let fresh = Arc::new(self.place.open().await?);
        match &mut *self.state() {
            State::Closed => Err(closed()),
            State::Open(other) if !Arc::ptr_eq(other, &known) => Ok(Arc::clone(other)),
            State::Open(lost) => {
                *lost = Arc::clone(&fresh);
                Ok(fresh)
            }
        }
    }

    /// A question about a lock that is held; a loss where its session has ended.
    async fn about(&self, operation: &'static str, grant: &ToyGrant, request: Request) -> Result<Reply, Error> {
        let answer = grant.0.ask(operation, request).await;
        // First: an answer that came after the deadline is none.
        grant.session().ensure_live(operation)?;
        answer
    }

    fn end(&self) {
        if let State::Open(session) = std::mem::replace(&mut *self.state(), State::Closed) {
            session.session().lose(LossReason::ShutDown);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Driver for ToyDriver {
    type Grant = ToyGrant;

    const DISTRIBUTED: bool = true;

    async fn try_lock(&self, scope: Scope, mode: Mode) -> Result<Option<ToyGrant>, Error> {
        let session = self.current().await?;
        let request = Request::TryLock { key: self.place.key(scope), mode };
        match session.ask("try_acquire", request).await? {
            Reply::Yes => Ok(Some(ToyGrant(session))),
            _ => Ok(None),
        }
    }

    async fn lock(&self, scope: Scope, mode: Mode, unwanted: CancellationToken) -> Result<Option<ToyGrant>, Error> {
        while !unwanted.is_cancelled() {
            let session = self.current().await?;
            let (number, mut answer) = session.send(Request::Lock { key: self.place.key(scope), mode });
            let answer = tokio::select! {
                answer = &mut answer => answer,
                () = unwanted.cancelled() => {
                    // Granted meanwhile or not: the answer to the lock itself says it.
                    drop(session.send(Request::Withdraw { number }));
                    answer.await
                }
            };
            match answer {
                Ok(Reply::Yes) => return Ok(Some(ToyGrant(session))),
                Ok(_) => return Ok(None),
                // The place in line has ended with the session: stand in line anew, on another one.
                Err(_) => {}
            }
        }
        Ok(None)
    }

    async fn unlock(&self, scope: Scope, grant: ToyGrant) -> Result<(), Error> {
        let request = Request::Unlock { key: self.place.key(scope) };
        held("release", &grant, &self.about("release", &grant, request).await?)
    }

    async fn contended(&self, scope: Scope, grant: ToyGrant, _: Look) -> Result<bool, Error> {
        // This instance holds the lock, so whoever waits is another.
        let request = Request::IsWaitedFor { key: self.place.key(scope) };
        Ok(matches!(self.about("contended", &grant, request).await?, Reply::Yes))
    }

    async fn confirm(&self, grant: ToyGrant) -> Result<(), Error> {
        self.about("release", &grant, Request::Ping).await.map(drop)
    }

    async fn verify(&self, scope: Scope, grant: ToyGrant) -> Result<(), Error> {
        let request = Request::IsHeld { key: self.place.key(scope) };
        held("verify", &grant, &self.about("verify", &grant, request).await?)
    }

    async fn fence(&self, scope: Scope, grant: ToyGrant) -> Result<FencingToken, Error> {
        let request = Request::Token { key: self.place.key(scope) };
        match self.about("fence", &grant, request).await? {
            Reply::Token(token) => Ok(FencingToken::new(token)),
            reply => Err(held("fence", &grant, &reply).err().unwrap_or_else(|| unanswered("fence"))),
        }
    }

    async fn inspect(&self, scope: Scope, own: Inspection) -> Result<Inspection, Error> {
        let session = self.current().await?;
        let mut found = own;
        for party in found.holders.iter_mut().chain(&mut found.waiters) {
            party.instance.clone_from(&self.place.instance);
        }
        if let Reply::Seen { holders, waiters } =
            session.ask("inspect", Request::Look { key: self.place.key(scope) }).await?
        {
            let party = |seen: Seen| Party::new(seen.instance, Some(seen.mode), Some(seen.since));
            found.holders.extend(holders.into_iter().map(party));
            found.waiters.extend(waiters.into_iter().map(party));
        }
        Ok(found)
    }

    async fn close(&self) {
        self.end();
    }
}

impl Drop for ToyDriver {
    fn drop(&mut self) {
        self.end();
    }
}

/// A server that says that a lock is not held knows other books than ours: the session is lost with all of them.
fn held(operation: &'static str, grant: &ToyGrant, reply: &Reply) -> Result<(), Error> {
    if matches!(reply, Reply::No) {
        grant.session().lose(LossReason::NotHeld);
    }
    grant.session().ensure_live(operation)
}

fn closed() -> Error {
    Error::new(ErrorKind::ShutDown, "acquire", "the coordinator was shut down")
}
