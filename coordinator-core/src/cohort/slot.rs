use super::effects::Effects;
use crate::Error;
use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
};

/// What a waiter gets: a lock at the backend, and during which tenure of the scope it got it.
#[derive(Clone)]
pub(super) struct Granted<G> {
    pub(super) grant: G,
    pub(super) tenure: u64,
}

pub(super) type Answer<G> = Result<Option<Granted<G>>, Error>;

/// Where a waiter's answer is put. Waiting → settled by the queue, under the shard's lock; → taken by the waiter.
pub(super) struct Slot<G>(Mutex<State<G>>);

enum State<G> {
    Waiting(Option<Waker>),
    Settled(Answer<G>),
    Taken,
}

/// What a waiter that goes away leaves behind.
pub(super) enum Abandoned<G> {
    Waiting(#[expect(dead_code, reason = "dropped outside the lock")] Option<Waker>),
    Granted(Granted<G>),
    Answered,
}

impl<G> Slot<G> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State::Waiting(None)))
    }

    pub(super) fn settle(&self, answer: Answer<G>, effects: &mut Effects<G>) {
        if let State::Waiting(Some(waker)) = std::mem::replace(&mut *lock(&self.0), State::Settled(answer)) {
            effects.wakers.push(waker);
        }
    }

    pub(super) fn poll(&self, cx: &Context<'_>) -> Poll<Answer<G>> {
        let mut state = lock(&self.0);
        let (stale, poll) = match std::mem::replace(&mut *state, State::Taken) {
            State::Settled(answer) => (None, Poll::Ready(answer)),
            State::Waiting(Some(waker)) if waker.will_wake(cx.waker()) => {
                *state = State::Waiting(Some(waker));
                (None, Poll::Pending)
            }
            State::Waiting(stale) => {
                *state = State::Waiting(Some(cx.waker().clone()));
                (stale, Poll::Pending)
            }
            State::Taken => (None, Poll::Pending),
        };
        drop(state);
        drop(stale); // dropping a waker may run a task's drop
        poll
    }

    pub(super) fn is_taken(&self) -> bool {
        matches!(*lock(&self.0), State::Taken)
    }

    /// To be called under the shard's lock, else the queue could settle it meanwhile.
    pub(super) fn abandon(&self) -> Abandoned<G> {
        match std::mem::replace(&mut *lock(&self.0), State::Taken) {
            State::Waiting(waker) => Abandoned::Waiting(waker),
            State::Settled(Ok(Some(granted))) => Abandoned::Granted(granted),
            State::Settled(_) | State::Taken => Abandoned::Answered,
        }
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
