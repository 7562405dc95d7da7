//! A session at the server: a key with a time to live, on which all scopes of the instance are held.
//!
//! It outlives its connections: a [`Keeper`] renews it, and finds another connection when one breaks. A request that
//! was not answered is asked again over the next one, by the same number, so that the server says what came of it.

use crate::books::Books;
use crate::connect::Connector;
use crate::grant::Entry;
use crate::keeper::Keeper;
use crate::keys::Keyspace;
use crate::link::{Failure, Link};
use crate::scripts::Script;
use crate::times::Times;
use crate::wakes::Wakes;
use coordinator_core::{CancellationToken, Error, ErrorKind, LossReason, Mode, Scope, Session};
use redis::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// What all sessions of an instance share.
pub(crate) struct Plan {
    pub(crate) connector: Connector,
    pub(crate) keys: Keyspace,
    pub(crate) instance: String,
    pub(crate) times: Times,
    pub(crate) wakes: Arc<Wakes>,
    /// How many replicas have to have a grant, and how long one waits for them.
    pub(crate) replicas: Option<(usize, Duration)>,
}

/// A handle of the session; when the last one is dropped the session ends.
pub(crate) struct RedisSession {
    pub(crate) plan: Arc<Plan>,
    pub(crate) id: String,
    key: String,
    session: Session,
    books: Arc<Books>,
    /// `None` while there is no connection that works.
    link: watch::Receiver<Option<Link>>,
    /// The keeper hears which connection broke; it ends the session when nobody can say so any more.
    broken: mpsc::UnboundedSender<u64>,
    ended: CancellationToken,
    requests: AtomicU64,
}

impl RedisSession {
    /// Begins a session over a connection of its own.
    pub(crate) async fn open(plan: &Arc<Plan>) -> Result<Arc<Self>, Error> {
        let id = format!("{:016x}", random()?);
        let (broken, breaks) = mpsc::unbounded_channel();
        let (books, ended) = (Arc::new(Books::default()), CancellationToken::new());
        let keeper = Keeper::open(plan, &id, &books, broken.downgrade(), breaks).await?;
        let (session, link) = (keeper.session().clone(), keeper.link());
        let done = ended.clone().drop_guard();
        drop(plan.connector.upkeep.spawn(async move {
            keeper.run().await;
            drop(done);
        }));
        let key = plan.keys.session(&id);
        let (plan, requests) = (Arc::clone(plan), AtomicU64::new(0));
        Ok(Arc::new(Self { plan, id, key, session, books, link, broken, ended, requests }))
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// Takes the scope if nobody holds it or waits for it.
    pub(crate) async fn take(&self, scope: &Scope, mode: Mode) -> Result<Option<Entry>, Error> {
        let entry = self.entry(mode);
        let taken = self.ask_for("lock", Script::Try, scope, entry).await? == 1;
        if !taken {
            return Ok(None);
        }
        self.hold(scope, entry).await.map(Some)
    }

    /// Stands in line until it is this session's turn; `None` when nobody wants the scope any more.
    pub(crate) async fn wait(
        &self,
        scope: &Scope,
        mode: Mode,
        unwanted: &CancellationToken,
    ) -> Result<Option<Entry>, Error> {
        let (entry, waiter) = (self.entry(mode), self.plan.wakes.waiter(*scope));
        loop {
            let millis = self.ask_for("lock", Script::Wait, scope, entry).await?;
            if millis == 0 {
                return self.hold(scope, entry).await.map(Some);
            }
            // A push may be lost with its connection, and no push comes from who died: then it is time to look again.
            let while_others_hold = Duration::from_millis(millis.unsigned_abs());
            tokio::select! {
                biased;
                () = unwanted.cancelled() => {
                    let _ = self.ask_for("lock", Script::Leave, scope, entry).await; // in doubt, the keeper sees to it
                    return Ok(None);
                }
                reason = self.session.lost() => return Err(Error::lost("lock", reason)),
                () = waiter.woken() => {}
                () = tokio::time::sleep(while_others_hold) => {}
            }
        }
    }

    /// Whether the scope had been held.
    pub(crate) async fn leave(&self, operation: &'static str, scope: &Scope, entry: Entry) -> Result<bool, Error> {
        self.books.release(scope, entry);
        Ok(self.ask_for(operation, Script::Leave, scope, entry).await? == 1)
    }

    pub(crate) async fn contended(&self, scope: &Scope, entry: Entry) -> Result<bool, Error> {
        let (key, by, mode) = self.parts(scope, entry);
        let answer = self.ask("lock", Script::Contended, &[&self.key, &key], &[&by, mode], &mut false).await?;
        Ok(number("lock", &answer)? == 1)
    }

    /// Fails with `Lost` unless the server says, asked after this call, that the scope is held; renews the session.
    pub(crate) async fn verify(&self, operation: &'static str, scope: &Scope, entry: Entry) -> Result<(), Error> {
        let key = self.plan.keys.scope(scope);
        let (held, millis) = (entry.held(&self.id), self.plan.times.time_to_live.as_millis().to_string());
        let sent = coordinator_core::Moment::now();
        match self.ask(operation, Script::Verify, &[&self.key, &key], &[&millis, &held], &mut false).await? {
            // One that was released meanwhile, by who got it inside the instance, is no loss: the release has the answer.
            Value::Array(missing) if missing.is_empty() || !self.books.holds(scope, entry) => {
                self.session.renew(sent.after(self.plan.times.guaranteed()));
                self.session.ensure_live(operation)
            }
            _ => Err(self.not_held(operation)),
        }
    }

    /// The token as text; fails with `Lost` if the scope is not held.
    pub(crate) async fn fence(&self, scope: &Scope, entry: Entry) -> Result<u64, Error> {
        let key = self.plan.keys.scope(scope);
        let (held, counter) = (entry.held(&self.id), self.plan.keys.fence());
        let keys = [self.key.as_str(), &key, &counter];
        let answer = self.ask("fence", Script::Fence, &keys, &[&held], &mut false).await?;
        self.reach_replicas("fence").await?;
        match answer {
            Value::BulkString(text) => {
                let token = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
                token.ok_or_else(|| unexpected("fence"))
            }
            Value::Int(0) => Err(self.not_held("fence")),
            _ => Err(Error::new(ErrorKind::Unavailable, "fence", "the server has no greater number left")),
        }
    }

    /// Who stands in the scope's line: name (empty: this instance), mode, state, since.
    pub(crate) async fn line(&self, scope: &Scope) -> Result<Value, Error> {
        self.ask("inspect", Script::Inspect, &[&self.key, &self.plan.keys.scope(scope)], &[], &mut false).await
    }

    /// Asks whoever holds the scope, in whatever instance, to give up.
    pub(crate) async fn revoke(&self, scope: &Scope) -> Result<(), Error> {
        let mut publish = redis::cmd("PUBLISH");
        publish.arg(self.plan.keys.revocations()).arg(hex::encode(scope.digest()));
        let link = self.link_after(0, "revoke").await?;
        link.command::<i64>("revoke", &publish).await.map(drop).map_err(|failure| failure.into_error("revoke"))
    }

    /// Resolves when all that the session held is free at the server, as far as that can be reached.
    pub(crate) async fn close(&self) {
        self.session.lose(LossReason::ShutDown);
        self.ended.cancelled().await;
    }

    /// The server's books and ours differ: every lease of the session is in doubt, so all are told.
    pub(crate) fn not_held(&self, operation: &'static str) -> Error {
        self.session.lose(LossReason::NotHeld);
        Error::lost(operation, LossReason::NotHeld)
    }

    async fn hold(&self, scope: &Scope, entry: Entry) -> Result<Entry, Error> {
        self.books.hold(*scope, entry);
        if let Err(error) = self.reach_replicas("lock").await {
            let _ = self.leave("lock", scope, entry).await; // in doubt, the keeper sees to it
            return Err(error);
        }
        Ok(entry)
    }

    /// Waits until enough replicas have what this connection has written.
    async fn reach_replicas(&self, operation: &'static str) -> Result<(), Error> {
        let Some((replicas, limit)) = self.plan.replicas else { return Ok(()) };
        let mut wait = redis::cmd("WAIT");
        wait.arg(replicas).arg(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1));
        let link = self.link_after(0, operation).await?;
        let reached: usize = link.command(operation, &wait).await.map_err(|failure| failure.into_error(operation))?;
        if reached >= replicas {
            return Ok(());
        }
        let message = format!("{reached} replicas have it, where {replicas} were asked for, after {limit:?}");
        Err(Error::new(ErrorKind::Unavailable, operation, message))
    }

    fn entry(&self, mode: Mode) -> Entry {
        Entry { number: self.requests.fetch_add(1, Ordering::Relaxed) + 1, mode }
    }

    fn parts(&self, scope: &Scope, entry: Entry) -> (String, String, &'static str) {
        (self.plan.keys.scope(scope), entry.by(&self.id), entry.letter())
    }

    /// A request that changes the scope's line. One that was sent and whose outcome stays unknown is in doubt.
    async fn ask_for(
        &self,
        operation: &'static str,
        script: Script,
        scope: &Scope,
        entry: Entry,
    ) -> Result<i64, Error> {
        let (key, by, mode) = self.parts(scope, entry);
        let mut is_in_doubt = false;
        let answer = self.ask(operation, script, &[&self.key, &key], &[&by, mode], &mut is_in_doubt).await;
        if answer.is_err() && is_in_doubt {
            self.books.doubt(*scope, entry);
        }
        number(operation, &answer?)
    }

    /// Over the first connection that answers.
    async fn ask(
        &self,
        operation: &'static str,
        script: Script,
        keys: &[&str],
        arguments: &[&str],
        is_in_doubt: &mut bool,
    ) -> Result<Value, Error> {
        let mut link = self.link_after(0, operation).await?;
        loop {
            let answer = tokio::select! {
                biased;
                answer = link.run(operation, script, keys, arguments) => answer,
                reason = self.session.lost() => return Err(Error::lost(operation, reason)),
            };
            match answer {
                Ok(value) => return Ok(value),
                Err(Failure::Ended) => return Err(self.not_held(operation)),
                Err(Failure::Refused(error)) => return Err(error),
                Err(Failure::Elsewhere(_)) => {}
                Err(Failure::Unanswered(_)) => *is_in_doubt = true,
            }
            let _ = self.broken.send(link.number); // the keeper is gone only where the session is lost
            link = self.link_after(link.number, operation).await?;
        }
    }

    /// The connection that counts, once it is a later one than that.
    async fn link_after(&self, number: u64, operation: &'static str) -> Result<Link, Error> {
        let mut links = self.link.clone();
        let is_later = |link: &Option<Link>| link.as_ref().is_some_and(|link| link.number > number);
        if let Some(link) = &*links.borrow()
            && link.number > number
        {
            return Ok(link.clone());
        }
        let later = tokio::time::timeout(self.plan.times.connect, links.wait_for(is_later));
        tokio::select! {
            biased;
            reason = self.session.lost() => Err(Error::lost(operation, reason)),
            later = later => match later {
                Ok(Ok(link)) => (*link).clone().ok_or_else(|| unexpected(operation)),
                // The keeper is gone, and with it the session.
                Ok(Err(_)) => Err(Error::lost(operation, self.session.loss().unwrap_or(LossReason::Disconnected))),
                Err(_) => {
                    let message = format!("the server can't be reached since {:?}", self.plan.times.connect);
                    Err(Error::new(ErrorKind::Unavailable, operation, message))
                }
            }
        }
    }
}

fn number(operation: &'static str, answer: &Value) -> Result<i64, Error> {
    if let Value::Int(number) = answer { Ok(*number) } else { Err(unexpected(operation)) }
}

fn unexpected(operation: &'static str) -> Error {
    Error::new(ErrorKind::Unavailable, operation, "the server answered what no script of this version answers")
}

pub(crate) fn random() -> Result<u64, Error> {
    getrandom::u64().map_err(|error| {
        Error::new(ErrorKind::Unavailable, "connect", format!("the operating system gives no random number: {error}"))
    })
}
