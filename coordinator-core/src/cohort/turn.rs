use super::{CohortOptions, ScopeQueue};
use crate::{CancellationToken, Error, Look, Mode, Moment, Session};
use tokio::sync::oneshot::Sender;

/// What a waiter gets: a lock at the backend, and during which tenure of the scope it got it.
#[derive(Clone)]
pub(super) struct Granted<G> {
    pub(super) grant: G,
    pub(super) tenure: u64,
    /// The grant's, or its child.
    pub(super) session: Session,
}

pub(super) type Answer<G> = Result<Option<Granted<G>>, Error>;

/// One transition of a queue: what it goes by, and what it asks for.
///
/// The latter is done after the shard's lock is given back: a wake, or the drop of a grant, may run a task's drop,
/// which may drop a lease of the same shard.
pub(super) struct Turn<'a, G> {
    pub(super) options: &'a CohortOptions,
    pub(super) now: Moment,
    /// Never used before: a ticket, or a tenure.
    pub(super) number: u64,
    pub(super) answers: Vec<(Sender<Answer<G>>, Answer<G>)>,
    pub(super) request: Option<Request<G>>,
    pub(super) unwanted: Option<CancellationToken>,
    /// A lock that is lost or revoked, and how many leases it had.
    pub(super) lost: Option<(Granted<G>, usize)>,
    pub(super) over: Option<ScopeQueue<G>>,
}

/// What the driver is asked; at most one request a transition.
pub(super) enum Request<G> {
    /// A wait that ends when it is unwanted, or a try.
    Lock(Mode, Option<CancellationToken>),
    Unlock(G),
    Contended(Granted<G>, Look),
}

impl<'a, G> Turn<'a, G> {
    pub(super) fn new(options: &'a CohortOptions, last: &mut u64) -> Self {
        *last += 1;
        let (now, number, answers) = (Moment::now(), *last, Vec::new());
        Self { options, now, number, answers, request: None, unwanted: None, lost: None, over: None }
    }
}
