//! Waiting for a scope that another instance holds.
//!
//! Who waits holds the turnstile exclusive while it waits for the real key, and keeps it across slices: so nobody
//! passes it, and a flow of shared holders can't starve it. When it gets the key it frees it, and the primary takes
//! it, still under the turnstile: no waiting session is tied up by a lease.

use crate::batch::Op;
use crate::connect::Connector;
use crate::grant::Grant;
use crate::holding::Holding;
use crate::keys::Keys;
use crate::primary::Primary;
use crate::session::random;
use crate::settings::Settings;
use crate::waiting::{Slice, Waiting};
use coordinator_core::{CancellationToken, Error, Mode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) struct Turnstile {
    primary: Arc<Primary>,
    connector: Arc<Connector>,
    holding: Settings,
    /// An acquire outlasts a server that is away.
    outlast_outages: bool,
    sessions: Arc<Semaphore>,
    idle: Mutex<Vec<Waiting>>,
    /// How many scopes wait for a session: those that have one then share it, a slice each.
    queued: AtomicUsize,
}

/// How a scope's turn on a waiting session ended.
enum Turn {
    Granted(Grant),
    Unwanted,
    /// Others wait for a session.
    Yielded,
}

impl Turnstile {
    pub(crate) fn new(
        primary: Arc<Primary>,
        connector: Arc<Connector>,
        holding: Settings,
        outlast_outages: bool,
        sessions: usize,
    ) -> Self {
        let (sessions, idle) = (Arc::new(Semaphore::new(sessions)), Mutex::default());
        Self { primary, connector, holding, outlast_outages, sessions, idle, queued: AtomicUsize::new(0) }
    }

    /// `Ok(None)`: nobody wants the lock any more.
    pub(crate) async fn wait(
        &self,
        keys: Keys,
        mode: Mode,
        unwanted: &CancellationToken,
    ) -> Result<Option<Grant>, Error> {
        let mut failures = 0;
        loop {
            match self.turn(keys, mode, unwanted, &mut failures).await {
                Ok(Turn::Granted(grant)) => return Ok(Some(grant)),
                Ok(Turn::Unwanted) => return Ok(None),
                Ok(Turn::Yielded) => {}
                // Once is forgiven: a session that was idle may have been ended just when it was taken. One that can't be
                // opened is not, else an acquire would fail only after two connect time-outs.
                Err(error)
                    if error.is_retryable()
                        && (self.outlast_outages || failures == 0 && error.operation() != "connect") =>
                {
                    failures += 1;
                    tracing::debug!(%error, failures, "a wait failed and begins anew");
                    if failures > 1 && self.pause(failures, unwanted).await {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Before a server that is away is asked again; true: nobody waits for it any more.
    async fn pause(&self, failures: u32, unwanted: &CancellationToken) -> bool {
        let pause = Duration::from_millis(50 << failures.min(5));
        tokio::select! {
            biased;
            () = unwanted.cancelled() => true,
            () = self.connector.upkeep.sleep(pause) => false,
        }
    }

    /// Earlier failures count no more once the server has let it wait again.
    async fn turn(
        &self,
        keys: Keys,
        mode: Mode,
        unwanted: &CancellationToken,
        failures: &mut u32,
    ) -> Result<Turn, Error> {
        let permit = match self.session(keys, mode, unwanted).await? {
            Ok(permit) => permit,
            Err(turn) => return Ok(turn),
        };
        let waiting = match self.take_idle() {
            Some(waiting) => waiting,
            None => Waiting::open(&self.connector).await?,
        };
        // The turnstile. An error drops the session, which frees what it has.
        loop {
            match waiting.lock(keys.turnstile, Mode::Exclusive, self.slice()?, unwanted).await? {
                Slice::Granted => break,
                Slice::Unwanted => return Ok(give_up(waiting).await),
                Slice::Elapsed if self.is_pressed() => {
                    *failures = 0;
                    self.rest(waiting, None).await;
                    return Ok(Turn::Yielded);
                }
                Slice::Elapsed => *failures = 0,
            }
        }
        // The key.
        let mut overtaken = false;
        loop {
            match waiting.lock(keys.scope, mode, self.slice()?, unwanted).await? {
                Slice::Unwanted => return Ok(give_up(waiting).await),
                Slice::Elapsed if self.is_pressed() => {
                    *failures = 0;
                    self.rest(waiting, Some(keys.turnstile)).await;
                    return Ok(Turn::Yielded);
                }
                Slice::Elapsed => *failures = 0,
                Slice::Granted if overtaken => return self.keep(waiting, keys, mode, permit).await,
                Slice::Granted => {
                    waiting.unlock(keys.scope, mode).await?;
                    let primary = self.primary.current().await?.holding;
                    if primary.ask(Op::Take(mode), keys).await? {
                        self.rest(waiting, Some(keys.turnstile)).await;
                        return Ok(Turn::Granted(Grant::new(primary, keys, mode, None)));
                    }
                    overtaken = true; // by an instance that knows no turnstile
                }
            }
        }
    }

    /// A permit for a waiting session, in turn; the primary tries meanwhile, as a shortcut.
    async fn session(
        &self,
        keys: Keys,
        mode: Mode,
        unwanted: &CancellationToken,
    ) -> Result<Result<OwnedSemaphorePermit, Turn>, Error> {
        if let Ok(permit) = Arc::clone(&self.sessions).try_acquire_owned() {
            return Ok(Ok(permit));
        }
        let _queued = Queued::new(&self.queued);
        let permit = Arc::clone(&self.sessions).acquire_owned();
        tokio::pin!(permit);
        loop {
            tokio::select! {
                biased;
                () = unwanted.cancelled() => return Ok(Err(Turn::Unwanted)),
                permit = &mut permit => return Ok(permit.map_err(|_| Turn::Unwanted)), // it is never closed
                () = self.connector.upkeep.sleep(self.slice()?) => {
                    let primary = self.primary.current().await?.holding;
                    if primary.ask(Op::Try(mode), keys).await? {
                        return Ok(Err(Turn::Granted(Grant::new(primary, keys, mode, None))));
                    }
                }
            }
        }
    }

    /// The waiting session keeps the key: it becomes the session that the lease lives on.
    async fn keep(
        &self,
        waiting: Waiting,
        keys: Keys,
        mode: Mode,
        permit: OwnedSemaphorePermit,
    ) -> Result<Turn, Error> {
        waiting.unlock(keys.turnstile, Mode::Exclusive).await?;
        let opened = waiting.into_holding(&self.holding).await?;
        let holding = Holding::start(opened, &self.holding, &self.connector.upkeep).await?;
        Ok(Turn::Granted(Grant::new(holding, keys, mode, Some(permit))))
    }

    /// Gives the turnstile back and keeps the session for the next wait; if that fails it ends, which frees all it had.
    pub(crate) async fn rest(&self, mut waiting: Waiting, turnstile: Option<i64>) {
        if waiting.rest(turnstile).await.is_ok() {
            self.idle().push(waiting);
        }
    }

    fn take_idle(&self) -> Option<Waiting> {
        let all = std::mem::take(&mut *self.idle());
        let (mut usable, ended): (Vec<_>, Vec<_>) = all.into_iter().partition(Waiting::is_usable);
        drop(ended);
        let taken = usable.pop();
        self.idle().extend(usable);
        taken
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Waiting>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the idle sessions.
    pub(crate) fn close(&self) {
        let ended = std::mem::take(&mut *self.idle());
        drop(ended);
    }

    fn is_pressed(&self) -> bool {
        self.queued.load(Ordering::Acquire) > 0
    }

    /// Randomised, so that instances don't move in step; short while others wait for a session.
    fn slice(&self) -> Result<Duration, Error> {
        let whole = if self.is_pressed() { 300 } else { 2_000 };
        Ok(Duration::from_millis(whole * 3 / 4 + random()? % (whole / 2)))
    }
}

async fn give_up(waiting: Waiting) -> Turn {
    waiting.give_up().await;
    Turn::Unwanted
}

/// Counts a scope that waits for a session, for as long as it lives.
struct Queued<'a>(&'a AtomicUsize);

impl<'a> Queued<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
