use super::queue::ScopeQueue;
use crate::{Look, LossReason, Mode, Wanted};
use std::task::Waker;

/// What a transition of a queue asks for; done after the shard's lock is given back.
///
/// A wake, or the drop of a waker or a grant, may run a task's drop, which may drop a lease of the same shard.
pub(super) struct Effects<G> {
    pub(super) wakers: Vec<Waker>,
    pub(super) request: Option<Request<G>>,
    pub(super) unwanted: Option<Wanted>,
    pub(super) lost: Option<Lost>,
    pub(super) dropped: Vec<Dropped<G>>,
}

/// What the driver is asked; at most one request a transition.
pub(super) enum Request<G> {
    TryLock { mode: Mode },
    Lock { mode: Mode, wanted: Wanted },
    Unlock { grant: G },
    Contended { grant: G, tenure: u64, look: Look },
}

pub(super) struct Lost {
    pub(super) leases: usize,
    pub(super) reason: LossReason,
}

pub(super) enum Dropped<G> {
    Grant(G),
    Queue(ScopeQueue<G>),
}

impl<G> Effects<G> {
    pub(super) fn new() -> Self {
        Self { wakers: Vec::new(), request: None, unwanted: None, lost: None, dropped: Vec::new() }
    }

    pub(super) fn ask(&mut self, request: Request<G>) {
        debug_assert!(self.request.is_none(), "one request at a time for a scope");
        self.request = Some(request);
    }
}
