//! Who holds what and who waits, at the server. No I/O: a request goes in, and what is to be said to whom comes out.
//!
//! A lock is held until it is freed by its session, or with it. Who waits is served in the order of coming; shared
//! waiters that follow one another are let in together, and nobody passes who waits.

use crate::wire::{Numbered, Reply, Request, Seen};
use coordinator_core::Mode;
use std::collections::{HashMap, VecDeque};
use std::time::{Duration, SystemTime};

pub(crate) type SessionId = u64;
/// To whom, and what.
pub(crate) type Says = Vec<(SessionId, Numbered<Reply>)>;

#[derive(Debug)]
pub(crate) struct LockTable {
    silence: Duration,
    locks: HashMap<String, Lock>,
    /// Their instances' names.
    sessions: HashMap<SessionId, String>,
    last_token: u64,
}

#[derive(Default, Debug)]
struct Lock {
    holders: Vec<Holder>,
    line: VecDeque<(u64, Holder)>,
}

/// Who has the lock, or will.
#[derive(Clone, Copy, Debug)]
struct Holder {
    session: SessionId,
    mode: Mode,
    since: SystemTime,
}

impl LockTable {
    pub(crate) fn new(silence: Duration) -> Self {
        Self { silence, locks: HashMap::new(), sessions: HashMap::new(), last_token: 0 }
    }

    pub(crate) fn answer(&mut self, session: SessionId, Numbered { number, body }: Numbered<Request>) -> Says {
        let (holder, mut says) = (|mode| Holder { session, mode, since: SystemTime::now() }, Says::new());
        let reply = match body {
            Request::Hello { instance } => {
                self.sessions.insert(session, instance);
                Reply::Welcome { silence: self.silence }
            }
            Request::Ping | Request::End { .. } => Reply::Yes,
            Request::TryLock { key, mode } => {
                let lock = self.locks.entry(key).or_default();
                let is_free = lock.line.is_empty() && lock.admits(mode);
                if is_free {
                    lock.holders.push(holder(mode));
                }
                yes_if(is_free)
            }
            Request::Lock { key, mode } => {
                let lock = self.locks.entry(key).or_default();
                lock.line.push_back((number, holder(mode)));
                lock.serve(&mut says);
                return says;
            }
            Request::Withdraw { number } => {
                for lock in self.locks.values_mut() {
                    lock.withdraw(session, number, &mut says);
                }
                Reply::Yes
            }
            Request::Unlock { key } => {
                yes_if(self.locks.get_mut(&key).is_some_and(|lock| lock.free(session, &mut says)))
            }
            Request::IsHeld { key } => yes_if(self.is_held(&key, session)),
            Request::IsWaitedFor { key } => yes_if(self.locks.get(&key).is_some_and(|lock| !lock.line.is_empty())),
            Request::Token { key } if self.is_held(&key, session) => {
                self.last_token += 1;
                Reply::Token(self.last_token)
            }
            Request::Token { .. } => Reply::No,
            Request::Look { key } => self.look(&key, session),
        };
        self.locks.retain(|_, lock| !lock.is_unused());
        says.push((session, Numbered { number, body: reply }));
        says
    }

    /// The session has ended, and with it what it held and waited for.
    pub(crate) fn leave(&mut self, session: SessionId) -> Says {
        let mut says = Says::new();
        self.sessions.remove(&session);
        for lock in self.locks.values_mut() {
            lock.holders.retain(|holder| holder.session != session);
            lock.line.retain(|(_, waiter)| waiter.session != session);
            lock.serve(&mut says);
        }
        self.locks.retain(|_, lock| !lock.is_unused());
        says
    }

    pub(crate) fn sessions_of(&self, instance: &str) -> Vec<SessionId> {
        self.sessions.iter().filter(|(_, name)| *name == instance).map(|(session, _)| *session).collect()
    }

    fn is_held(&self, key: &str, session: SessionId) -> bool {
        self.locks.get(key).is_some_and(|lock| lock.holders.iter().any(|holder| holder.session == session))
    }

    /// What others do: who asks knows itself, and better.
    fn look(&self, key: &str, session: SessionId) -> Reply {
        let seen = |holder: &Holder| Seen {
            instance: self.sessions.get(&holder.session).cloned().unwrap_or_default(),
            mode: holder.mode,
            since: holder.since,
        };
        let lock = self.locks.get(key);
        let holders = lock.into_iter().flat_map(|lock| &lock.holders);
        let waiters = lock.into_iter().flat_map(|lock| &lock.line).map(|(_, waiter)| waiter);
        let others = |holder: &&Holder| holder.session != session;
        Reply::Seen {
            holders: holders.filter(others).map(seen).collect(),
            waiters: waiters.filter(others).map(seen).collect(),
        }
    }
}

impl Lock {
    fn admits(&self, mode: Mode) -> bool {
        self.holders.iter().all(|holder| holder.mode == Mode::Shared && mode == Mode::Shared)
    }

    fn serve(&mut self, says: &mut Says) {
        while let Some((number, next)) = self.line.front().copied()
            && self.admits(next.mode)
        {
            self.line.pop_front();
            self.holders.push(Holder { since: SystemTime::now(), ..next });
            says.push((next.session, Numbered { number, body: Reply::Yes }));
        }
    }

    fn withdraw(&mut self, session: SessionId, number: u64, says: &mut Says) {
        let before = self.line.len();
        self.line.retain(|(of, waiter)| (waiter.session, *of) != (session, number));
        if self.line.len() < before {
            says.push((session, Numbered { number, body: Reply::No }));
            self.serve(says); // those behind it may go well with who holds
        }
    }

    fn free(&mut self, session: SessionId, says: &mut Says) -> bool {
        let Some(place) = self.holders.iter().position(|holder| holder.session == session) else { return false };
        self.holders.remove(place);
        self.serve(says);
        true
    }

    fn is_unused(&self) -> bool {
        self.holders.is_empty() && self.line.is_empty()
    }
}

fn yes_if(so: bool) -> Reply {
    if so { Reply::Yes } else { Reply::No }
}
