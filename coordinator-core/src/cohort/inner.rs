//! Shards of queues, and what their transitions ask for.

use super::CohortOptions;
use super::effects::{Effects, Granted};
use super::queue::{Arrival, ScopeQueue};
use super::requests::Told;
use super::waiters::Patience;
use crate::{Driver, Error, ErrorKind, Grant, Inspection, Left, Mode, Scope, Session, telemetry};
use std::collections::{HashMap, hash_map::Entry};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

const SHARDS: usize = 16;

pub(super) struct Inner<D: Driver> {
    pub(super) driver: D,
    pub(super) options: CohortOptions,
    pub(super) room: Option<Arc<Semaphore>>,
    shards: [Mutex<Shard<D::Grant>>; SHARDS],
    closed: OnceLock<()>,
    emptied: Notify,
}

struct Shard<G> {
    queues: HashMap<Scope, ScopeQueue<G>>,
    /// Tickets and tenures: never the same number twice, also after a scope's queue was over.
    next: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: Driver> Inner<D> {
    pub(super) fn new(driver: D, options: CohortOptions) -> Self {
        let room = options.most_scopes.map(|most| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))));
        let shards = std::array::from_fn(|_| Mutex::new(Shard { queues: HashMap::new(), next: 0 }));
        Self { driver, options, room, shards, closed: OnceLock::new(), emptied: Notify::new() }
    }

    fn shard(&self, scope: &Scope) -> MutexGuard<'_, Shard<D::Grant>> {
        lock(&self.shards[usize::from(scope.digest()[8]) % SHARDS])
    }

    pub(super) fn enter(
        self: &Arc<Self>,
        scope: Scope,
        mode: Mode,
        patience: Patience,
        mut room: Option<OwnedSemaphorePermit>,
    ) -> Arrival<D::Grant> {
        let mut effects = Effects::new();
        let mut guard = self.shard(&scope);
        if self.closed.get().is_some() {
            return Arrival::Closed;
        }
        let shard = &mut *guard;
        let ticket = shard.next;
        shard.next += 1;
        let queue = match shard.queues.entry(scope) {
            Entry::Occupied(occupied) => occupied.into_mut(),
            Entry::Vacant(vacant) => {
                if let (Some(all), None) = (&self.room, &room) {
                    let Ok(permit) = Arc::clone(all).try_acquire_owned() else { return Arrival::Full };
                    room = Some(permit);
                }
                vacant.insert(match self.driver.without_backend() {
                    Some(grant) => ScopeQueue::without_backend(Granted { grant, tenure: ticket }, room.take()),
                    None => ScopeQueue::new(room.take()),
                })
            }
        };
        let arrival = queue.arrive(ticket, mode, patience, &mut effects);
        if queue.is_over() {
            effects.over = shard.queues.remove(&scope); // without a backend, on a session that is lost
        }
        drop(guard);
        drop(room);
        self.perform(scope, effects);
        arrival
    }

    /// One event of a scope's queue, if there is one, and then what it asks for.
    ///
    /// `event` also gets a number that was never used; the outcome of an unlock that it started is told.
    pub(super) fn event(
        self: &Arc<Self>,
        scope: Scope,
        event: impl FnOnce(&mut ScopeQueue<D::Grant>, u64, &mut Effects<D::Grant>),
    ) -> Option<Told> {
        let mut effects = Effects::new();
        let mut guard = self.shard(&scope);
        let shard = &mut *guard;
        let next = shard.next;
        shard.next += 1;
        if let Entry::Occupied(mut occupied) = shard.queues.entry(scope) {
            event(occupied.get_mut(), next, &mut effects);
            if occupied.get().is_over() {
                effects.over = Some(occupied.remove());
            }
        }
        drop(guard);
        self.perform(scope, effects)
    }

    /// Gives a granted lock back; the outcome is told if that frees it at the backend.
    pub(super) fn leave(self: &Arc<Self>, scope: Scope, tenure: u64) -> Option<Told> {
        self.event(scope, |queue, _, effects| queue.leave(tenure, effects))
    }

    fn perform(self: &Arc<Self>, scope: Scope, effects: Effects<D::Grant>) -> Option<Told> {
        for (tell, answer) in effects.answers {
            if let Err(Ok(Some(unreceived))) = tell.send(answer) {
                self.leave(scope, unreceived.tenure);
            }
        }
        if let Some(unwanted) = effects.unwanted {
            unwanted.cancel();
        }
        if let Some(lost) = effects.lost {
            lost.granted.grant.session().tell();
            if lost.leases > 0 {
                telemetry::lost(scope, lost.leases, lost.reason);
            }
        }
        if effects.over.is_some() && self.closed.get().is_some() {
            self.emptied.notify_waiters();
        }
        effects.request.and_then(|request| request.make(self, scope))
    }

    /// Who queues behind leases of a lost session asks anew at once.
    pub(super) fn hand_losses_on(self: &Arc<Self>, session: Session) {
        let inner = Arc::downgrade(self);
        drop(self.options.upkeep.spawn(async move {
            session.lost().await;
            if let Some(inner) = Weak::upgrade(&inner) {
                inner.look_for_losses();
            }
        }));
    }

    pub(super) fn look_for_losses(self: &Arc<Self>) {
        for scope in self.scopes() {
            self.event(scope, |queue, _, effects| queue.look_for_loss(effects));
        }
    }

    /// All scopes that somebody holds or waits for.
    pub(super) fn scopes(&self) -> Vec<Scope> {
        self.shards.iter().flat_map(|shard| lock(shard).queues.keys().copied().collect::<Vec<_>>()).collect()
    }

    pub(super) fn inspection(&self, scope: Scope) -> Inspection {
        self.shard(&scope).queues.get(&scope).map(ScopeQueue::inspection).unwrap_or_default()
    }

    /// From here on who comes is refused, and so is who waits.
    pub(super) fn close(self: &Arc<Self>) {
        let _ = self.closed.set(());
        if let Some(room) = &self.room {
            room.close();
        }
        for scope in self.scopes() {
            self.event(scope, |queue, _, effects| queue.refuse_waiters(&closed(), effects));
        }
    }

    /// Resolves when nothing is held or waited for.
    pub(super) async fn empty(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.scopes().is_empty() {
                return;
            }
            emptied.await;
        }
    }

    pub(super) fn left(&self) -> Vec<Left> {
        let left = |scope: Scope| self.shard(&scope).queues.get(&scope).and_then(|queue| queue.left(scope));
        self.scopes().into_iter().filter_map(left).collect()
    }
}

pub(super) fn closed() -> Error {
    Error::new(ErrorKind::ShutDown, "acquire", "the coordinator was shut down")
}
