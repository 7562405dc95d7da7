//! Two processes that want one scope: one holds it, the other stands in line.

use crate::moment::Moment;
use crate::process::{Answer, Process, Told};
use crate::stage::Stage;
use crate::{Env, PATIENCE, until, within};
use coordinator_core::Mode;
use std::pin::Pin;
use std::time::Duration;

/// The scope that is contended for.
pub(super) const S: &str = "s";
/// How late a timer may be on a busy machine.
pub(super) const LATE: Duration = Duration::from_millis(500);

pub(super) type Waiting = Pin<Box<dyn Future<Output = Answer> + Send>>;

pub(super) struct Rivals {
    pub(super) holder: Process,
    pub(super) next: Process,
    waiting: Waiting,
}

impl Rivals {
    pub(super) async fn start(stage: &Stage) -> Self {
        Self::with_holder_in(stage, &stage.env()).await
    }

    /// The holder lives there: behind a link, say.
    pub(super) async fn with_holder_in(stage: &Stage, env: &Env) -> Self {
        let (holder, next) = (stage.process_in(env).await, stage.process().await);
        holder.acquire(S, Mode::Exclusive, PATIENCE).await.granted();
        let waiting = in_line(&next, 1).await;
        Self { holder, next, waiting }
    }

    /// When the other was granted the scope.
    pub(super) async fn granted(&mut self, limit: Duration) -> Moment {
        within(limit, "the next grant", &mut self.waiting).await.granted()
    }

    /// Whether it has to wait still, that long.
    pub(super) async fn is_excluded_for(&mut self, time: Duration) {
        let answer = tokio::time::timeout(time, &mut self.waiting).await;
        assert!(answer.is_err(), "{answer:?} while another holds the scope");
    }
}

/// Stands in line when this returns, as the last of so many.
pub(super) async fn in_line(process: &Process, waiters: usize) -> Waiting {
    let waiting = process.queue(S, Mode::Exclusive).await;
    until(PATIENCE, "it stands in line", async || seen(process).await.1 >= waiters).await;
    Box::pin(waiting)
}

/// How many hold the scope, and how many wait for it, as that process sees it.
pub(super) async fn seen(process: &Process) -> (usize, usize) {
    match process.ask(crate::process::Command::Inspect { scope: S.into() }).await {
        Answer::Seen { holders, waiters } => (holders, waiters),
        other => panic!("{other:?} instead of an inspection"),
    }
}

/// What a process says of a lease that was lost.
pub(super) struct Loss {
    pub(super) reason: String,
    /// When `lost()` resolved.
    pub(super) told: Moment,
    /// When `ensure_live()` said for the last time that the lease is live.
    pub(super) believed: Moment,
}

/// The loss of the scope, once the process has told it and believes no more.
pub(super) async fn loss(process: &Process, limit: Duration) -> Loss {
    let (mut lost, mut believed) = (None, None);
    loop {
        match process.told(limit).await {
            Told::Lost { reason, at, .. } => lost = Some((reason, at)),
            Told::BelievedUntil { at, .. } => believed = Some(at),
        }
        if let (Some((reason, told)), Some(believed)) = (&lost, believed) {
            return Loss { reason: reason.clone(), told: *told, believed };
        }
    }
}
