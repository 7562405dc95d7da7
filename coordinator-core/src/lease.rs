use crate::{Error, FencingToken, Hold, LossReason, Mode, Scope, step};
use std::sync::{Arc, OnceLock};
use std::{fmt, future::Future, time::Duration};
use tokio_util::task::TaskTracker;

/// A held scope; dropping it frees the scope promptly, without blocking.
///
/// What a lease can't do is recall an effect that was already sent: a request in flight lands also after its lease
/// is gone. Run such requests by [`Lease::irreversible`].
#[must_use = "a lease that is dropped frees its scope"]
pub struct Lease {
    scope: Scope,
    mode: Mode,
    hold: Arc<dyn Hold>,
    steps: OnceLock<TaskTracker>,
}

impl Lease {
    /// For authors of backends: a lease over what the backend holds.
    pub fn new(scope: Scope, mode: Mode, hold: impl Hold) -> Self {
        Self { scope, mode, hold: Arc::new(hold), steps: OnceLock::new() }
    }

    /// What is held.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// How it is held.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// `Ok` while the lease excludes others, judged now; free of I/O, and right also after the process was frozen.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost), for good.
    pub fn ensure_live(&self) -> Result<(), Error> {
        self.hold.session().ensure_live("ensure_live")
    }

    /// How long the lease is guaranteed from now if the link is cut now; zero when it is lost.
    ///
    /// [`Duration::MAX`] where nothing but an explicit loss ends it.
    pub fn remaining(&self) -> Duration {
        self.hold.session().remaining()
    }

    /// Asks the backend on the holding session; afterwards at least `min_remaining` is guaranteed.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) when the scope is not held; [`Unavailable`](crate::ErrorKind::Unavailable) when the answer
    /// left less than `min_remaining` (retry, or ask for less than the coordinator's time of silence).
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn verify(&self, min_remaining: Duration) -> Result<(), Error> {
        self.hold.session().ensure_live("verify")?;
        self.hold.verify().await?;
        step::ensure_remaining("verify", self.hold.session(), min_remaining)
    }

    /// A new fencing token, greater than every token that earlier holders of the scope got.
    ///
    /// It protects only where the sink checks it: see [`FencingGate`](crate::FencingGate).
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) when the scope is not held; [`Unavailable`](crate::ErrorKind::Unavailable) when the backend
    /// can't be asked or its numbers don't fit a token any more.
    ///
    /// # Cancel safety
    /// May be dropped at any time; a number is skipped.
    pub async fn fence(&self) -> Result<FencingToken, Error> {
        self.hold.session().ensure_live("fence")?;
        self.hold.fence().await
    }

    /// Resolves when the session is known dead, and at the lease's deadline at the latest.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + 'static + use<> {
        self.hold.session().lost()
    }

    /// Verifies the lease, then runs `step` to its end on a task that owns the lease.
    ///
    /// For the one call that must not be cut in two, such as the destroy of a key. Dropping the caller, or its
    /// runtime, neither cancels the step nor frees the scope before the step ends: a release waits for it. The step
    /// runs on threads of the coordinator, also while the caller's runtime is blocked. A step is ended only by the
    /// end of the process: commit a tombstone before it and resume from that.
    ///
    /// # Errors
    /// As [`verify`](Self::verify); the step has not begun then.
    ///
    /// # Panics
    /// If the step panics.
    ///
    /// # Cancel safety
    /// Dropped before the step began: it never runs. Later: it runs to its end, the scope held.
    pub async fn irreversible<F>(&self, min_remaining: Duration, step: F) -> Result<F::Output, Error>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        step::run(&[self], min_remaining, step).await
    }

    /// Frees the scope and confirms that it had been held to the end.
    ///
    /// The scope is handed on at once, after irreversible steps that still run; the answer comes from the holding
    /// session, asked after this call.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) when the lease had not been held to the end: what was done under it may have met
    /// another holder. [`Unavailable`](crate::ErrorKind::Unavailable) when the backend did not answer.
    ///
    /// # Cancel safety
    /// May be dropped at any time: the scope is freed all the same, unconfirmed.
    pub async fn release(self) -> Result<(), Error> {
        if let Some(steps) = self.steps.get() {
            steps.close();
            steps.wait().await;
        }
        self.hold.release().outcome().await
    }

    /// What a task owns that must keep the scope held: the scope is free when all of it is dropped.
    pub(crate) fn own(&self) -> (Arc<dyn Hold>, tokio_util::task::task_tracker::TaskTrackerToken) {
        (Arc::clone(&self.hold), self.steps.get_or_init(TaskTracker::new).token())
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("scope", &self.scope)
            .field("mode", &self.mode)
            .field("session", self.hold.session())
            .finish_non_exhaustive()
    }
}
