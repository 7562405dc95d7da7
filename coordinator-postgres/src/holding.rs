//! A session that holds scopes: one task owns it, and combines what arrives while a statement is in flight.

use crate::error::classify;
use crate::keys::Keys;
use crate::session::{Connection, Opened};
use crate::settings::Settings;
use coordinator_core::{Error, ErrorKind, LossReason, Mode, Moment, Session, Upkeep};
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::error::Severity;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement};

/// A handle of the session; when the last one is dropped the session ends.
#[derive(Clone)]
pub(crate) struct Holding(Arc<Shared>);

struct Shared {
    requests: mpsc::UnboundedSender<Request>,
    session: Session,
    client: Arc<Client>,
    verify: Statement,
    fence: Statement,
    guaranteed: Duration,
}

/// What the session can be asked in a burst; each answers with one boolean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    /// Lock, unless somebody holds the turnstile: nobody passes a waiter.
    Try(Mode),
    /// Lock, under the turnstile that a waiting session of ours holds.
    Take(Mode),
    Unlock(Mode),
    /// Whether somebody holds the turnstile.
    Contended,
    /// Nothing but an answer.
    Confirm,
}

struct Request {
    op: Op,
    keys: Keys,
    reply: oneshot::Sender<Result<bool, Error>>,
}

const LARGEST_BATCH: usize = 1024;

/// Not `… AND false` for the turnstile's unlock: the planner would fold it away and never call it.
macro_rules! by_op {
    ($op:literal, $k:literal, $q:literal, $from:literal) => {
        concat!(
            "SELECT CASE ",
            $op,
            " WHEN 0 THEN CASE WHEN pg_try_advisory_lock_shared(",
            $q,
            ") THEN CASE WHEN pg_try_advisory_lock(",
            $k,
            ") THEN pg_advisory_unlock_shared(",
            $q,
            ") ELSE NOT pg_advisory_unlock_shared(",
            $q,
            ") END ELSE false END",
            " WHEN 1 THEN CASE WHEN pg_try_advisory_lock_shared(",
            $q,
            ") THEN CASE WHEN pg_try_advisory_lock_shared(",
            $k,
            ") THEN pg_advisory_unlock_shared(",
            $q,
            ") ELSE NOT pg_advisory_unlock_shared(",
            $q,
            ") END ELSE false END",
            " WHEN 2 THEN pg_try_advisory_lock(",
            $k,
            ")",
            " WHEN 3 THEN pg_try_advisory_lock_shared(",
            $k,
            ")",
            " WHEN 4 THEN pg_advisory_unlock(",
            $k,
            ")",
            " WHEN 5 THEN pg_advisory_unlock_shared(",
            $k,
            ")",
            " WHEN 6 THEN CASE WHEN pg_try_advisory_lock_shared(",
            $q,
            ") THEN NOT pg_advisory_unlock_shared(",
            $q,
            ") ELSE true END ELSE true END",
            $from
        )
    };
}

const ONE: &str = by_op!("$1::int", "$2::bigint", "$3::bigint", "");
const MANY: &str = by_op!("op", "k", "q", " FROM unnest($1::int[], $2::bigint[], $3::bigint[]) AS burst(op, k, q)");
const OWN_LOCKS: &str = "SELECT (classid::bigint << 32) | objid::bigint, mode = 'ExclusiveLock' FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND pid = pg_backend_pid()";
const VERIFY: &str = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND pid = pg_backend_pid() AND (classid::bigint << 32) | objid::bigint = $1
    AND (mode = 'ExclusiveLock') = $2)";

impl Op {
    fn code(self) -> i32 {
        match self {
            Self::Try(Mode::Exclusive) => 0,
            Self::Try(Mode::Shared) => 1,
            Self::Take(Mode::Exclusive) => 2,
            Self::Take(Mode::Shared) => 3,
            Self::Unlock(Mode::Exclusive) => 4,
            Self::Unlock(Mode::Shared) => 5,
            Self::Contended => 6,
            Self::Confirm => 7,
        }
    }
}

impl Holding {
    pub(crate) async fn start(opened: Opened, settings: &Settings, upkeep: &Upkeep) -> Result<Self, Error> {
        let sent = Moment::now();
        let client = &opened.client;
        let prepared = tokio::try_join!(
            client.prepare(ONE),
            client.prepare(MANY),
            client.prepare_typed(VERIFY, &[Type::INT8, Type::BOOL]),
            client.prepare_typed(crate::fence::FENCE, &[Type::INT8, Type::BOOL]),
        );
        let (one, many, verify, fence) = prepared.map_err(|error| classify("connect", error))?;
        let guaranteed = settings.guaranteed();
        let session = Session::until(sent.after(guaranteed));
        drop(upkeep.spawn(session.expiry(upkeep)));
        let (requests, inbox) = mpsc::unbounded_channel();
        let (client, connection) = (Arc::new(opened.client), opened.connection);
        let owner = Owner { client: Arc::clone(&client), connection, one, many, session: session.clone(), guaranteed };
        drop(upkeep.spawn(owner.run(inbox, settings.heartbeat())));
        Ok(Self(Arc::new(Shared { requests, session, client, verify, fence, guaranteed })))
    }

    pub(crate) fn session(&self) -> &Session {
        &self.0.session
    }

    /// # Errors
    /// `Unavailable` if it was not done, or the session is lost: then nothing is held on it any more.
    pub(crate) async fn ask(&self, op: Op, keys: Keys) -> Result<bool, Error> {
        let (reply, answer) = oneshot::channel();
        let gone = || Error::new(ErrorKind::Unavailable, "lock", "the session with the server ended");
        self.0.requests.send(Request { op, keys, reply }).map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Whether the server says that the session holds the key, judged after this call.
    pub(crate) async fn verify(&self, keys: Keys, mode: Mode) -> Result<(), Error> {
        let exclusive = mode == Mode::Exclusive;
        let row = self.renewing("verify", self.0.client.query_one(&self.0.verify, &[&keys.scope, &exclusive])).await?;
        if row.get(0) { Ok(()) } else { Err(self.not_held("verify")) }
    }

    pub(crate) async fn fence(&self, keys: Keys, mode: Mode) -> Result<Option<tokio_postgres::Row>, Error> {
        let exclusive = mode == Mode::Exclusive;
        self.renewing("fence", self.0.client.query_opt(&self.0.fence, &[&keys.scope, &exclusive])).await
    }

    pub(crate) fn client(&self) -> &Client {
        &self.0.client
    }

    /// The server's books and ours differ: every lease of the session is in doubt, so all are told.
    pub(crate) fn not_held(&self, operation: &'static str) -> Error {
        self.0.session.lose(LossReason::NotHeld);
        Error::lost(operation, LossReason::NotHeld)
    }

    async fn renewing<T>(
        &self,
        operation: &'static str,
        query: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Error> {
        let sent = Moment::now();
        let answer = tokio::select! {
            biased;
            reason = self.0.session.lost() => return Err(Error::lost(operation, reason)),
            answer = query => answer,
        };
        match answer {
            Ok(answer) => {
                self.0.session.renew(sent.after(self.0.guaranteed));
                Ok(answer)
            }
            Err(error) if ends_session(&error) => {
                self.0.session.lose(LossReason::Disconnected);
                Err(Error::lost(operation, LossReason::Disconnected))
            }
            Err(error) => Err(classify(operation, error)),
        }
    }
}

/// The task that owns the session. States: serving, then ended for ever, with the session lost.
struct Owner {
    client: Arc<Client>,
    connection: Connection,
    one: Statement,
    many: Statement,
    session: Session,
    guaranteed: Duration,
}

impl Owner {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Request>, heartbeat: Duration) {
        let lost = self.session.lost();
        tokio::pin!(lost);
        let mut beat = tokio::time::interval(heartbeat);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut burst = Vec::new();
        loop {
            let served = async {
                tokio::select! {
                    biased;
                    received = inbox.recv_many(&mut burst, LARGEST_BATCH) => {
                        if received == 0 {
                            self.session.lose(LossReason::ShutDown); // nobody has a handle any more
                            return;
                        }
                    }
                    _ = beat.tick() => {}
                }
                serve(&self.client, &self.one, &self.many, &self.session, self.guaranteed, &mut burst).await;
            };
            // A statement that is dropped here dies with its session.
            tokio::select! {
                biased;
                _ = &mut lost => return,
                said = self.connection.ended() => return tell_end(&self.session, said.as_ref()),
                () = served => {}
            }
        }
    }
}

fn ends_session(error: &tokio_postgres::Error) -> bool {
    let severity = error.as_db_error().and_then(tokio_postgres::error::DbError::parsed_severity);
    error.is_closed() || matches!(severity, Some(Severity::Fatal | Severity::Panic))
}

fn tell_end(session: &Session, error: Option<&tokio_postgres::Error>) {
    let said = error.and_then(tokio_postgres::Error::as_db_error).map(tokio_postgres::error::DbError::message);
    tracing::warn!(said, "the session that holds this instance's scopes ended");
    session.lose(LossReason::Disconnected);
}

async fn serve(
    client: &Client,
    one: &Statement,
    many: &Statement,
    session: &Session,
    guaranteed: Duration,
    burst: &mut Vec<Request>,
) {
    let sent = Moment::now();
    let rows = match &burst[..] {
        [] => client.query(one, &[&Op::Confirm.code(), &0_i64, &0_i64]).await,
        [only] => client.query(one, &[&only.op.code(), &only.keys.scope, &only.keys.turnstile]).await,
        _ => {
            let ops: Vec<i32> = burst.iter().map(|request| request.op.code()).collect();
            let keys: Vec<i64> = burst.iter().map(|request| request.keys.scope).collect();
            let turnstiles: Vec<i64> = burst.iter().map(|request| request.keys.turnstile).collect();
            client.query(many, &[&ops, &keys, &turnstiles]).await
        }
    };
    match rows {
        Ok(rows) => {
            session.renew(sent.after(guaranteed));
            for (request, row) in burst.drain(..).zip(rows) {
                let _ = request.reply.send(Ok(row.get(0))); // nobody listens where the driver's runtime ended
            }
        }
        Err(error) => {
            let ended = ends_session(&error);
            if ended || reconcile(client, burst, &classify("lock", error)).await.is_err() {
                session.lose(LossReason::Disconnected); // loss told beats a guess
            }
        }
    }
}

/// A statement that failed half-way keeps what it locked and does not say which (FACTS: measured with 53200): the
/// answers are derived from what the server says that the session holds, and what is not wanted is freed.
async fn reconcile(client: &Client, burst: &mut Vec<Request>, error: &Error) -> Result<(), tokio_postgres::Error> {
    let rows = client.query(OWN_LOCKS, &[]).await?;
    let held: HashSet<(i64, bool)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    for request in burst.drain(..) {
        let Request { op, keys, reply } = request;
        let holds = |mode| held.contains(&(keys.scope, mode == Mode::Exclusive));
        if held.contains(&(keys.turnstile, false)) {
            client.query("SELECT pg_advisory_unlock_shared($1)", &[&keys.turnstile]).await?;
        }
        let answer = match op {
            Op::Try(mode) | Op::Take(mode) if holds(mode) => Ok(true),
            Op::Unlock(mode) if holds(mode) => {
                let unlock = if mode == Mode::Exclusive { "pg_advisory_unlock" } else { "pg_advisory_unlock_shared" };
                Ok(client.query_one(&format!("SELECT {unlock}($1)"), &[&keys.scope]).await?.get(0))
            }
            Op::Unlock(_) => Ok(true), // freed before the statement failed
            Op::Contended | Op::Confirm | Op::Try(_) | Op::Take(_) => Err(error.clone()),
        };
        let _ = reply.send(answer);
    }
    Ok(())
}
