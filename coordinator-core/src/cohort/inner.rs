//! Shards of queues, and what their transitions ask for.

use super::{Arrival, CohortOptions, Granted, Room, ScopeQueue, Told, Turn, Wish};
use crate::{Driver, Error, ErrorKind, Grant, Inspection, Scope, telemetry};
use std::collections::{HashMap, hash_map::Entry};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::{Notify, Semaphore};

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
    last: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: Driver> Inner<D> {
    pub(super) fn new(driver: D, options: CohortOptions) -> Self {
        let room = options.most_scopes.map(|most| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))));
        let shards = std::array::from_fn(|_| Mutex::new(Shard { queues: HashMap::new(), last: 0 }));
        Self { driver, options, room, shards, closed: OnceLock::new(), emptied: Notify::new() }
    }

    fn shard(&self, scope: &Scope) -> MutexGuard<'_, Shard<D::Grant>> {
        lock(&self.shards[usize::from(scope.digest()[8]) % SHARDS])
    }

    /// A caller comes, with room for a scope if it had to wait for that.
    pub(super) fn enter(self: &Arc<Self>, scope: Scope, wish: Wish, mut room: Room) -> Arrival<D::Grant> {
        let mut shard = self.shard(&scope);
        if self.closed.get().is_some() {
            return Arrival::Answered(Err(closed()));
        }
        let mut turn = Turn::new(&self.options, &mut shard.last);
        let mut queue = match shard.queues.entry(scope) {
            Entry::Occupied(queue) => queue,
            Entry::Vacant(vacant) => {
                if let (Some(all), None) = (&self.room, &room) {
                    let Ok(permit) = Arc::clone(all).try_acquire_owned() else { return Arrival::Full };
                    room = Some(permit);
                }
                let granted =
                    |grant: D::Grant| Granted { session: grant.session().clone(), grant, tenure: turn.number };
                let granted = self.driver.without_backend().map(granted);
                vacant.insert_entry(ScopeQueue::new(granted, room.take()))
            }
        };
        let arrival = queue.get_mut().arrive(wish, &mut turn);
        if queue.get().is_over() {
            turn.over = Some(queue.remove()); // without a backend, on a session that is lost
        }
        drop(shard);
        drop(room);
        self.perform(scope, turn);
        arrival
    }

    /// One event of a scope's queue, if there is one; the outcome of an unlock that it started is told.
    pub(super) fn event(
        self: &Arc<Self>,
        scope: Scope,
        event: impl FnOnce(&mut ScopeQueue<D::Grant>, &mut Turn<'_, D::Grant>),
    ) -> Option<Told> {
        let mut shard = self.shard(&scope);
        let mut turn = Turn::new(&self.options, &mut shard.last);
        if let Entry::Occupied(mut queue) = shard.queues.entry(scope) {
            event(queue.get_mut(), &mut turn);
            if queue.get().is_over() {
                turn.over = Some(queue.remove());
            }
        }
        drop(shard);
        self.perform(scope, turn)
    }

    /// Gives a granted lock back; the outcome is told if that frees it at the backend.
    pub(super) fn leave(self: &Arc<Self>, scope: Scope, tenure: u64) -> Option<Told> {
        self.event(scope, |queue, turn| queue.leave(tenure, turn))
    }

    fn perform(self: &Arc<Self>, scope: Scope, turn: Turn<'_, D::Grant>) -> Option<Told> {
        for (tell, answer) in turn.answers {
            if let Err(Ok(Some(unreceived))) = tell.send(answer) {
                self.leave(scope, unreceived.tenure);
            }
        }
        if let Some(unwanted) = turn.unwanted {
            unwanted.cancel();
        }
        if let Some((granted, leases)) = turn.lost
            && let Some(reason) = granted.session.loss()
        {
            telemetry::lost(scope, leases, reason);
        }
        if turn.over.is_some() && self.closed.get().is_some() {
            self.emptied.notify_waiters();
        }
        turn.request.and_then(|request| self.request(scope, request))
    }

    /// One event of all queues.
    pub(super) fn everywhere(self: &Arc<Self>, event: impl Fn(&mut ScopeQueue<D::Grant>, &mut Turn<'_, D::Grant>)) {
        for scope in self.scopes() {
            self.event(scope, &event);
        }
    }

    /// All scopes that somebody holds or waits for.
    pub(super) fn scopes(&self) -> Vec<Scope> {
        self.each(|scope, _| Some(scope))
    }

    /// What `look` finds in the queues.
    pub(super) fn each<T>(&self, look: impl Fn(Scope, &ScopeQueue<D::Grant>) -> Option<T>) -> Vec<T> {
        let found = |(scope, queue): (&Scope, &_)| look(*scope, queue);
        self.shards.iter().flat_map(|shard| lock(shard).queues.iter().filter_map(found).collect::<Vec<_>>()).collect()
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
        self.everywhere(|queue, turn| queue.refuse_waiters(closed(), turn));
    }

    /// Resolves when nothing is held or waited for.
    pub(super) async fn empty(&self) {
        let mut emptied = self.emptied.notified();
        while !self.scopes().is_empty() {
            emptied.await;
            emptied = self.emptied.notified();
        }
    }
}

pub(super) fn closed() -> Error {
    Error::new(ErrorKind::ShutDown, "acquire", "the coordinator was shut down")
}
