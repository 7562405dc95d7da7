use crate::{Error, ErrorKind, FencingToken, LossReason, Mode, Scope, Session, under_lock, upkeep};
use async_trait::async_trait;
use std::sync::{Arc, OnceLock};
use std::{fmt, panic, slice, time::Duration};
use tokio::sync::oneshot::Receiver;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

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
    /// [`Lost`](ErrorKind::Lost), for good.
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
    /// [`Lost`](ErrorKind::Lost) when the scope is not held; [`Unavailable`](ErrorKind::Unavailable) when the answer
    /// left less than `min_remaining` (retry, or ask for less than the coordinator's time of silence).
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn verify(&self, min_remaining: Duration) -> Result<(), Error> {
        verify(slice::from_ref(self), min_remaining).await
    }

    /// A new fencing token, greater than every token that earlier holders of the scope got.
    ///
    /// It protects only where the sink checks it: see [`FencingGate`](crate::FencingGate).
    ///
    /// # Errors
    /// [`Lost`](ErrorKind::Lost) when the scope is not held; [`Unavailable`](ErrorKind::Unavailable) when the backend
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
        irreversible(slice::from_ref(self), min_remaining, step).await
    }

    /// Frees the scope and confirms that it had been held to the end.
    ///
    /// The scope is handed on at once, after irreversible steps that still run; the answer comes from the holding
    /// session, asked after this call.
    ///
    /// # Errors
    /// [`Lost`](ErrorKind::Lost) when the lease had not been held to the end: what was done under it may have met
    /// another holder. [`Unavailable`](ErrorKind::Unavailable) when the backend did not answer.
    ///
    /// # Cancel safety
    /// May be dropped at any time: the scope is freed all the same, unconfirmed.
    pub async fn release(self) -> Result<(), Error> {
        if let Some(steps) = self.steps.get() {
            steps.close();
            steps.wait().await;
        }
        let Some(told) = self.hold.release()? else { return Ok(()) };
        let untold = || Error::new(ErrorKind::Unavailable, "release", "the backend did not confirm the release");
        told.await.unwrap_or_else(|_| Err(untold()))
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lease").field(&self.scope).field(&self.mode).field(self.hold.session()).finish()
    }
}

/// Runs `step` on a task that owns `leases`, all of them verified before it begins.
pub(crate) async fn irreversible<F>(leases: &[Lease], min_remaining: Duration, step: F) -> Result<F::Output, Error>
where
    F: Future<Output: Send> + Send + 'static,
{
    verify(leases, min_remaining).await?;
    // Each hold before its token: who waits for the tokens finds the scope its own to free.
    let own = |lease: &Lease| (Arc::clone(&lease.hold), lease.steps.get_or_init(TaskTracker::new).token());
    let owned: Vec<_> = leases.iter().map(own).collect();
    let task = async move {
        // The other answers took time, the task may be scheduled late, the process be frozen before: look here.
        for (hold, _) in &owned {
            ensure_remaining("irreversible", hold.session(), min_remaining)?;
        }
        let output = step.await;
        drop(owned);
        Ok(output)
    };
    let ended = upkeep::steps().spawn(under_lock::inherit(task).in_current_span()).await;
    // Nobody aborts it, and its runtime is never shut down: it can only have panicked.
    ended.unwrap_or_else(|failed| panic::resume_unwind(failed.into_panic()))
}

pub(crate) async fn verify(leases: &[Lease], min_remaining: Duration) -> Result<(), Error> {
    for lease in leases {
        lease.hold.session().ensure_live("verify")?;
        lease.hold.verify().await?;
    }
    leases.iter().try_for_each(|lease| ensure_remaining("verify", lease.hold.session(), min_remaining))
}

/// # Errors
/// `Lost`, or `Unavailable` when less is guaranteed from now.
fn ensure_remaining(what: &'static str, session: &Session, min_remaining: Duration) -> Result<(), Error> {
    session.ensure_live(what)?;
    let remaining = session.remaining();
    if remaining >= min_remaining {
        return Ok(());
    }
    let message = format!(
        "{min_remaining:?} were asked for and only {remaining:?} are guaranteed: ask for less, or configure a longer \
         time of silence"
    );
    Err(Error::new(ErrorKind::Unavailable, what, message))
}

/// The backend's half of a [`Lease`]; dropping it frees the scope, without blocking.
#[async_trait]
pub trait Hold: Send + Sync + 'static {
    /// What the lease lives on.
    fn session(&self) -> &Session;

    /// Asks the backend, on the holding session, whether the scope is held.
    async fn verify(&self) -> Result<(), Error>;

    /// A new token, in one step of the backend that fails with `Lost` if the scope is not held.
    async fn fence(&self) -> Result<FencingToken, Error>;

    /// Starts the release at once; what is returned only confirms. A later call, and the drop, do nothing.
    ///
    /// `Ok(None)`: it is confirmed already; else the outcome will be told.
    ///
    /// # Errors
    /// `Lost` when the session is known to be; the scope is given back all the same.
    fn release(&self) -> Result<Option<Receiver<Result<(), Error>>>, Error>;
}
