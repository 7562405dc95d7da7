//! The queue of this process's callers: only the head of a scope's queue talks to the backend.

mod held;
mod holding;
mod inner;
mod options;
mod queue;
mod requests;
mod turn;
mod waiters;

pub use options::CohortOptions;

use crate::{CohortBacked, Driver, ErasureCoordinator, Error, ErrorKind, Inspection};
use crate::{Lease, Left, Mode, Scope, Shutdown, telemetry};
use async_trait::async_trait;
use held::{Held, Window};
use holding::{Holding, Place};
use inner::{Inner, closed};
use queue::{Arrival, ScopeQueue};
use requests::{Told, unanswered};
use std::sync::{Arc, atomic::AtomicBool};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, mpsc::UnboundedReceiver};
use tracing::Instrument;
use turn::{Answer, Granted, Request, Turn};
use waiters::{Patience, Waiters, Wish};

/// Room under the instance's cap of scopes, where there is one.
type Room = Option<OwnedSemaphorePermit>;

/// A coordinator over a [`Driver`]: queues, hand-off, shared counting, cancel and drop, loss.
///
/// A released scope goes to the next local waiter, and shared callers join a shared lock that the instance has, for
/// a window of some milliseconds; then the driver is asked whether another instance waits.
pub struct Cohort<D: Driver>(Arc<Inner<D>>);

impl<D: Driver> Cohort<D> {
    /// A cohort over `driver`.
    pub fn new(driver: D, options: CohortOptions) -> Self {
        Self(Arc::new(Inner::new(driver, options)))
    }

    /// What is under it.
    pub fn driver(&self) -> &D {
        &self.0.driver
    }

    /// How many scopes are held or waited for now.
    pub fn scopes(&self) -> usize {
        self.0.scopes().len()
    }

    /// Asks who holds a scope in this instance to give up, for each that is `revoked`, as the backend sees it: those
    /// leases are lost with [`LossReason::Revoked`](crate::LossReason::Revoked), nobody joins them, and the lock is
    /// freed when the last of them has left. Ends when the channel is closed, or the coordinator gone.
    pub fn heed(&self, mut revoked: UnboundedReceiver<Scope>) {
        let inner = Arc::downgrade(&self.0);
        let heed = async move {
            while let (Some(scope), Some(inner)) = (revoked.recv().await, inner.upgrade()) {
                inner.event(scope, ScopeQueue::revoke);
            }
        };
        drop(self.0.options.upkeep.spawn(heed));
    }

    /// The scope as the backend sees it.
    pub fn digest(&self, scope: &Scope) -> Scope {
        self.0.options.digest_key.as_ref().map_or(*scope, |key| scope.keyed(key))
    }

    async fn enter(&self, scope: &Scope, wish: Wish, room: Room) -> Result<Option<Lease>, Error> {
        let (named, scope, mode) = (*scope, self.digest(scope), wish.0);
        let begin = Instant::now();
        let granted = match self.0.enter(scope, wish, room) {
            Arrival::Answered(answer) => answer,
            arrival => {
                let span = tracing::debug_span!("acquire", %scope, %mode);
                self.wait(arrival, scope, wish).instrument(span).await
            }
        };
        let since = Instant::now();
        telemetry::asked(scope, mode, since.saturating_duration_since(begin), &granted);
        Ok(granted?.map(|granted| {
            let (inner, released) = (Arc::clone(&self.0), AtomicBool::new(false));
            Lease::new(named, mode, Holding { inner, scope, mode, granted, since, released })
        }))
    }

    async fn wait(&self, mut arrival: Arrival<D::Grant>, scope: Scope, wish: Wish) -> Answer<D::Grant> {
        loop {
            arrival = match arrival {
                Arrival::Answered(answer) => return answer,
                Arrival::Queued(ticket, told) => {
                    return Place { inner: Arc::clone(&self.0), scope, ticket, told }.answer().await;
                }
                Arrival::Full => {
                    let limit = if wish.1 == Patience::Try { Duration::ZERO } else { self.0.options.wait_for_room };
                    let room = self.room(1, limit).await?;
                    self.0.enter(scope, wish, room)
                }
            };
        }
    }

    /// Room for that many scopes, taken at once.
    async fn room(&self, scopes: usize, limit: Duration) -> Result<Room, Error> {
        let (Some(room), Some(most)) = (&self.0.room, self.0.options.most_scopes) else { return Ok(None) };
        let Some(many) = u32::try_from(scopes).ok().filter(|_| scopes <= most) else {
            let message = format!("{scopes} scopes at once are more than the {most} that this instance may hold");
            return Err(Error::new(ErrorKind::Invalid, "acquire", message));
        };
        tokio::select! {
            biased;
            permit = Arc::clone(room).acquire_many_owned(many) => permit.map(Some).map_err(|_| closed()),
            () = self.0.options.upkeep.sleep(limit) => {
                let message = format!("the instance holds its {most} scopes, and none was freed in {limit:?}");
                Err(Error::new(ErrorKind::Unavailable, "acquire", message))
            }
        }
    }
}

#[async_trait]
impl<B: CohortBacked> ErasureCoordinator for B {
    fn is_distributed(&self) -> bool {
        B::Driver::DISTRIBUTED
    }

    async fn acquire(&self, scope: &Scope, mode: Mode) -> Result<Lease, Error> {
        self.cohort().enter(scope, (mode, Patience::Wait), None).await?.ok_or_else(unanswered)
    }

    async fn try_acquire(&self, scope: &Scope, mode: Mode) -> Result<Option<Lease>, Error> {
        self.cohort().enter(scope, (mode, Patience::Try), None).await
    }

    async fn inspect(&self, scope: &Scope) -> Result<Inspection, Error> {
        let (cohort, scope) = (self.cohort(), self.cohort().digest(scope));
        let (inner, own) = (Arc::clone(&cohort.0), cohort.0.inspection(scope));
        cohort.0.ask("inspect", async move { inner.driver.inspect(scope, own).await }).await
    }

    async fn acquire_sorted(&self, wanted: &[(Scope, Mode)]) -> Result<Vec<Lease>, Error> {
        let cohort = self.cohort();
        let mut room = cohort.room(wanted.len(), cohort.0.options.wait_for_room).await?;
        let mut leases = Vec::with_capacity(wanted.len());
        for (scope, mode) in wanted {
            let one = room.as_mut().and_then(|room| room.split(1));
            leases.push(cohort.enter(scope, (*mode, Patience::Wait), one).await?.ok_or_else(unanswered)?);
        }
        Ok(leases)
    }

    async fn shutdown(&self, limit: Duration) -> Result<Shutdown, Error> {
        let inner = Arc::clone(&self.cohort().0);
        inner.close();
        tokio::select! {
            biased;
            () = inner.empty() => {}
            () = inner.options.upkeep.sleep(limit) => {}
        }
        let left = inner.each(|scope, queue| {
            let (mode, leases) = queue.leases();
            (leases > 0).then_some(Left { scope, mode, leases })
        });
        let closing = Arc::clone(&inner);
        let close = async move {
            closing.driver.close().await;
            closing.everywhere(ScopeQueue::look_for_loss);
            Ok(Shutdown { left })
        };
        inner.ask("shutdown", close).await
    }
}

impl<D: Driver> std::fmt::Debug for Cohort<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cohort").field("scopes", &self.scopes()).finish_non_exhaustive()
    }
}
