use crate::{CancellationToken, Error, LossReason, Moment, Upkeep};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::{fmt, time::Duration};

/// Timers stand still while the machine is suspended; a wait for a deadline is cut into pieces of this length.
const LONGEST_NAP: Duration = Duration::from_millis(500);

/// Whether what a lease lives on is alive; shared by all leases of one session with the backend.
///
/// The one place that knows of a loss: leases, cohort and driver derive it from here. States: live, then lost for
/// ever, with the first reason. Anybody may move it, by [`Session::lose`] or by looking at it past its deadline. What
/// the cohort holds of one scope is a child of it, lost with it, and alone when it is revoked.
#[derive(Clone)]
pub struct Session(Arc<State>);

struct State {
    parent: Option<Session>,
    lost: OnceLock<LossReason>,
    /// A [`Moment`]; moved forward by each answered heartbeat.
    deadline: AtomicU64,
    told: CancellationToken,
    attended: AtomicBool,
}

impl Session {
    /// A session that only [`Session::lose`] ends.
    pub fn unbounded() -> Self {
        Self::until(Moment::NEVER)
    }

    /// A session whose leases are lost at `deadline`, unless it is renewed before.
    pub fn until(deadline: Moment) -> Self {
        Self::new(None, deadline, CancellationToken::new())
    }

    /// What is lost with this session, and can be lost alone.
    pub(crate) fn child(&self) -> Self {
        Self::new(Some(self.clone()), Moment::NEVER, self.0.told.child_token())
    }

    fn new(parent: Option<Self>, deadline: Moment, told: CancellationToken) -> Self {
        let (lost, deadline, attended) = (OnceLock::new(), AtomicU64::new(deadline.0), AtomicBool::new(false));
        Self(Arc::new(State { parent, lost, deadline, told, attended }))
    }

    /// Moves the deadline forward, never back; a session that is lost stays lost.
    pub fn renew(&self, deadline: Moment) {
        if self.loss().is_none() {
            self.0.deadline.fetch_max(deadline.0, Ordering::AcqRel);
        }
    }

    /// Tells every lease of this session that it is lost; the first reason stays.
    pub fn lose(&self, reason: LossReason) {
        self.condemn(reason);
        self.0.told.cancel();
    }

    /// As [`Session::lose`], but wakes nobody: for who holds a lock, and calls [`Session::loss`] after it.
    pub(crate) fn condemn(&self, reason: LossReason) {
        let _ = self.0.lost.set(reason); // the first one stays
    }

    /// Why the session is lost, judged by the clock now, also on a thread that was frozen past the deadline.
    pub fn loss(&self) -> Option<LossReason> {
        self.judge().inspect(|_| self.0.told.cancel())
    }

    /// As [`Session::loss`], but wakes nobody: for who holds a lock, and calls that after it.
    pub(crate) fn judge(&self) -> Option<LossReason> {
        let passed = || self.remaining().is_zero().then_some(LossReason::DeadlinePassed);
        if self.0.lost.get().is_none()
            && let Some(reason) = self.0.parent.as_ref().map_or_else(passed, Self::judge)
        {
            self.condemn(reason);
        }
        self.0.lost.get().copied()
    }

    /// `Ok` while the session is live.
    ///
    /// # Errors
    /// [`ErrorKind::Lost`](crate::ErrorKind::Lost) with the reason.
    pub fn ensure_live(&self, operation: &'static str) -> Result<(), Error> {
        self.loss().map_or(Ok(()), |reason| Err(Error::lost(operation, reason)))
    }

    /// How long it is until the deadline; [`Duration::MAX`] without one, zero when lost.
    pub fn remaining(&self) -> Duration {
        if self.0.lost.get().is_some() {
            return Duration::ZERO;
        }
        let own = || Moment(self.0.deadline.load(Ordering::Acquire)).remaining();
        self.0.parent.as_ref().map_or_else(own, Self::remaining)
    }

    /// Resolves when the session is lost. Owned, and needs no runtime to be polled on.
    ///
    /// # Cancel safety
    /// May be dropped at any time; nothing is lost.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + 'static + use<> {
        let session = self.clone();
        async move {
            loop {
                if let Some(reason) = session.loss() {
                    return reason;
                }
                session.0.told.cancelled().await;
            }
        }
    }

    /// Tells the loss when the deadline passes; a driver runs it beside each of its sessions.
    ///
    /// # Cancel safety
    /// May be dropped at any time; then only who looks is told.
    pub fn expiry(&self, upkeep: &Upkeep) -> impl Future<Output = LossReason> + Send + 'static + use<> {
        let (session, upkeep) = (self.clone(), upkeep.clone());
        async move {
            loop {
                tokio::select! {
                    biased;
                    reason = session.lost() => return reason,
                    () = upkeep.sleep(session.remaining().min(LONGEST_NAP)) => {}
                }
            }
        }
    }

    /// True once in the session's life: who gets it takes on to hand losses to the waiters.
    pub(crate) fn attend(&self) -> bool {
        !self.0.attended.load(Ordering::Relaxed) && !self.0.attended.swap(true, Ordering::AcqRel)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("loss", &self.loss()).field("remaining", &self.remaining()).finish()
    }
}
