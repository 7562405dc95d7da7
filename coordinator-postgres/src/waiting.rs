use crate::connect::Connector;
use crate::error::classify;
use crate::session::{Opened, open};
use crate::settings::Settings;
use coordinator_core::{CancellationToken, Error, ErrorKind, Mode};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_postgres::error::SqlState;
use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

/// A session that waits for one scope at a time; it holds nothing that is worth keeping.
///
/// Whoever has it owns it alone. Idle: it holds nothing. Then what its owner locked on it; after any error that is
/// not understood the owner drops it, which closes it and frees all.
pub(crate) struct Waiting {
    opened: Opened,
    connector: Arc<Connector>,
    idle_since: Instant,
}

/// How a slice of waiting ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slice {
    Granted,
    Elapsed,
    /// Nobody wants the lock any more; the session may hold it or still wait: [`Waiting::give_up`].
    Unwanted,
}

/// How long an idle session is kept, so that the next wait stands at the turnstile at once.
///
/// A session that waits or holds goes after seconds of silence; one that holds nothing is in nobody's way.
const IDLE: Duration = Duration::from_secs(60);

/// How much later than the end of its slice a live server has answered.
const GRACE: Duration = Duration::from_secs(3);

impl Waiting {
    pub(crate) async fn open(connector: &Arc<Connector>) -> Result<Self, Error> {
        let opened = open(connector, &Settings::waiting()).await?;
        Ok(Self { opened, connector: Arc::clone(connector), idle_since: Instant::now() })
    }

    /// Whether it is surely not yet ended by the server for idleness.
    pub(crate) fn is_usable(&self) -> bool {
        !self.opened.connection.has_ended() && self.idle_since.elapsed() + GRACE < IDLE
    }

    /// Gives the turnstile back, if it has it, and may be idle for a while then.
    pub(crate) async fn rest(&mut self, turnstile: Option<i64>) -> Result<(), Error> {
        self.idle_since = Instant::now();
        let set = format!("SET idle_session_timeout = {}", IDLE.as_millis());
        let unlock = async {
            match turnstile {
                Some(turnstile) => self.unlock(turnstile, Mode::Exclusive).await,
                None => Ok(()),
            }
        };
        let (unlocked, set) = tokio::join!(unlock, self.answer(&set));
        unlocked.and(set.map(drop))
    }

    /// Waits for the key for a slice: a blocked wait holds a snapshot, so that it must end now and then.
    pub(crate) async fn lock(
        &self,
        key: i64,
        mode: Mode,
        slice: Duration,
        unwanted: &CancellationToken,
    ) -> Result<Slice, Error> {
        if unwanted.is_cancelled() {
            return Ok(Slice::Unwanted);
        }
        let silence = Settings::waiting().silence().as_millis();
        let set = format!("SET lock_timeout = {}; SET idle_session_timeout = {silence}", slice.as_millis().max(1));
        // A lone statement: with more behind it in one string a dead client's backend goes on to that first.
        let lock = format!("SELECT {}('{key}'::bigint)", name("pg_advisory_lock", mode));
        let client = &self.opened.client;
        let both = async { tokio::join!(client.simple_query(&set), client.simple_query(&lock)) };
        let (set, locked) = tokio::select! {
            biased;
            answers = both => answers,
            () = unwanted.cancelled() => return Ok(Slice::Unwanted),
            () = self.connector.upkeep.sleep(slice + GRACE) => {
                return Err(Error::new(ErrorKind::Unavailable, "lock", "the server stopped answering"));
            }
        };
        set.map_err(|error| classify("lock", error))?;
        match locked {
            Ok(_) => Ok(Slice::Granted),
            // Granted and timed out at once looks like this too: only the server knows what the session holds.
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                Ok(if self.holds(key, mode).await? { Slice::Granted } else { Slice::Elapsed })
            }
            Err(error) => Err(classify("lock", error)),
        }
    }

    async fn holds(&self, key: i64, mode: Mode) -> Result<bool, Error> {
        let kind = if mode == Mode::Exclusive { "ExclusiveLock" } else { "ShareLock" };
        self.boolean(&format!(
            "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
                AND pid = pg_backend_pid() AND mode = '{kind}'
                AND (classid::bigint << 32) | objid::bigint = '{key}'::bigint)"
        ))
        .await
    }

    pub(crate) async fn unlock(&self, key: i64, mode: Mode) -> Result<(), Error> {
        if self.boolean(&format!("SELECT {}('{key}'::bigint)", name("pg_advisory_unlock", mode))).await? {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Unavailable, "lock", "the waiting session did not hold what it was granted"))
    }

    /// A try that takes nothing if it fails; for the proof that two sessions exclude each other.
    pub(crate) async fn try_lock(&self, key: i64) -> Result<bool, Error> {
        self.boolean(&format!("SELECT pg_try_advisory_lock('{key}'::bigint)")).await
    }

    async fn boolean(&self, sql: &str) -> Result<bool, Error> {
        let row = self.answer(sql).await?.into_iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        Ok(row.as_ref().and_then(|row: &SimpleQueryRow| row.get(0)) == Some("t"))
    }

    async fn answer(&self, sql: &str) -> Result<Vec<SimpleQueryMessage>, Error> {
        tokio::select! {
            biased;
            answer = self.opened.client.simple_query(sql) => answer.map_err(|error| classify("lock", error)),
            () = self.connector.upkeep.sleep(GRACE) => {
                Err(Error::new(ErrorKind::Unavailable, "lock", "the server stopped answering"))
            }
        }
    }

    /// Ends a wait that nobody wants: asks the server to cancel it, then closes the session.
    ///
    /// Only closing is sure: a cancel may come late, and a cancelled wait may have been granted.
    pub(crate) async fn give_up(self) {
        let token = self.opened.client.cancel_token();
        let (connector, target) = (Arc::clone(&self.connector), self.opened.target.clone());
        let settings = Settings::waiting();
        drop(self);
        tokio::select! {
            _ = connector.cancel(&token, &target, &settings) => {}
            () = connector.upkeep.sleep(Duration::from_secs(1)) => {}
        }
    }

    /// The session becomes the one that a lease lives on.
    pub(crate) async fn into_holding(self, settings: &Settings) -> Result<Opened, Error> {
        let opened = self.opened;
        opened.client.batch_execute(&settings.statements()).await.map_err(|error| classify("lock", error))?;
        Ok(opened)
    }
}

fn name(function: &str, mode: Mode) -> String {
    format!("{function}{}", if mode == Mode::Shared { "_shared" } else { "" })
}
