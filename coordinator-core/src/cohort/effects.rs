use super::queue::ScopeQueue;
use crate::{Error, Look, LossReason, Mode};
use tokio::sync::oneshot::Sender;
use tokio_util::sync::CancellationToken;

/// What a waiter gets: a lock at the backend, and during which tenure of the scope it got it.
#[derive(Clone)]
pub(super) struct Granted<G> {
    pub(super) grant: G,
    pub(super) tenure: u64,
}

pub(super) type Answer<G> = Result<Option<Granted<G>>, Error>;

/// What a transition of a queue asks for; done after the shard's lock is given back.
///
/// A wake, or the drop of a grant, may run a task's drop, which may drop a lease of the same shard.
pub(super) struct Effects<G> {
    pub(super) answers: Vec<(Sender<Answer<G>>, Answer<G>)>,
    pub(super) request: Option<Request<G>>,
    pub(super) unwanted: Option<CancellationToken>,
    pub(super) lost: Option<Lost<G>>,
    pub(super) over: Option<ScopeQueue<G>>,
}

/// What the driver is asked; at most one request a transition.
pub(super) enum Request<G> {
    TryLock { mode: Mode },
    Lock { mode: Mode, unwanted: CancellationToken },
    Unlock { grant: G },
    Contended { grant: G, tenure: u64, look: Look },
}

pub(super) struct Lost<G> {
    pub(super) leases: usize,
    pub(super) reason: LossReason,
    pub(super) granted: Granted<G>,
}

impl<G> Effects<G> {
    pub(super) fn new() -> Self {
        Self { answers: Vec::new(), request: None, unwanted: None, lost: None, over: None }
    }
}
