//! Callers, leases and answers in any order, and what has to be true after each of them.

use super::caller::Caller;
use super::rig::{Asking, Rig};
use super::{Asked, Parked};
use coordinator_core::{ErasureCoordinator, Error, ErrorKind, Lease, LossReason, Mode, Scope, Session, Shutdown};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub struct World {
    pub rig: Rig,
    pub waiting: Vec<Waiting>,
    pub leases: Vec<Lease>,
    pub releases: Vec<Caller<Result<(), Error>>>,
    pub shutdowns: Vec<Caller<Result<Shutdown, Error>>>,
    /// Something happened that is told to callers as an error.
    pub may_fail: bool,
    came: u64,
}

pub struct Waiting {
    pub asking: Asking,
    pub scope: Scope,
    pub mode: Mode,
    pub is_try: bool,
    /// When it was first polled, and so entered the queue.
    came: u64,
    /// A session was lost while its answer was on the way to it.
    may_be_lost: bool,
}

impl Waiting {
    /// It was told something and has not looked yet.
    pub fn is_told(&self) -> bool {
        self.asking.is_begun() && self.asking.is_due()
    }
}

impl World {
    pub fn new(rig: Rig) -> Self {
        let (waiting, leases) = (Vec::new(), Vec::new());
        Self { rig, waiting, leases, releases: Vec::new(), shutdowns: Vec::new(), may_fail: false, came: 0 }
    }

    /// A caller comes; `begins`: and is polled once.
    pub fn arrive(&mut self, scope: Scope, mode: Mode, is_try: bool, begins: bool) {
        let asking = self.rig.asking(scope, mode, is_try);
        self.waiting.push(Waiting { asking, scope, mode, is_try, came: 0, may_be_lost: false });
        if begins {
            self.poll(self.waiting.len() - 1);
        }
    }

    /// Polls one caller; true if it has its answer, and is gone from the list.
    pub fn poll(&mut self, at: usize) -> bool {
        if !self.waiting[at].asking.is_begun() {
            self.came += 1;
            self.waiting[at].came = self.came;
        }
        let Poll::Ready(answer) = self.waiting[at].asking.poll() else { return false };
        let caller = self.waiting.remove(at);
        match answer {
            Ok(Some(lease)) => {
                self.check_granted(&lease, &caller);
                self.leases.push(lease);
            }
            Ok(None) => assert!(caller.is_try, "an acquire is not answered by None"),
            Err(error) => assert!(self.may_fail, "{error}"),
        }
        self.check_exclusion();
        true
    }

    fn check_granted(&mut self, lease: &Lease, caller: &Waiting) {
        assert_eq!((lease.scope(), lease.mode()), (&caller.scope, caller.mode));
        if lease.ensure_live().is_err() {
            assert!(caller.may_be_lost, "granted on a session that was lost before");
            return;
        }
        // The lock under the lease is what the backend holds now, and in the lease's mode.
        let held = self.rig.script.script().held.get(lease.scope()).cloned();
        let (id, mode, session) = held.expect("the lease is held at the backend");
        assert_eq!(mode, lease.mode());
        assert!(session.loss().is_none());
        if let Some(id_of_lease) = self.grant_of(lease) {
            assert_eq!(id_of_lease, id, "a lease of a lock that was freed");
        }
    }

    /// The grant under a lease, as a fence shows it; `None` without an upkeep.
    fn grant_of(&mut self, lease: &Lease) -> Option<u64> {
        let parked = {
            let mut fence = pin!(lease.fence());
            let _ = fence.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            self.rig.settle();
            let mut script = self.rig.script.script();
            let at = script.parked.iter().position(|parked| matches!(parked.asked, Asked::Fence { .. }))?;
            script.parked.remove(at)
        };
        let Asked::Fence { grant, scope } = parked.asked.clone() else { return None };
        assert_eq!(scope, *lease.scope());
        let id = grant.id;
        parked.agree();
        Some(id)
    }

    /// While an exclusive lease is live, no other lease of its scope is.
    pub fn check_exclusion(&self) {
        let live = || self.leases.iter().filter(|lease| lease.ensure_live().is_ok());
        for exclusive in live().filter(|lease| lease.mode() == Mode::Exclusive) {
            assert_eq!(live().filter(|lease| lease.scope() == exclusive.scope()).count(), 1, "exclusion");
        }
    }

    /// Everybody who was told something looks.
    pub fn receive(&mut self) {
        let mut at = 0;
        while at < self.waiting.len() {
            let stays = !self.waiting[at].is_told() || !self.poll(at);
            at += usize::from(stays);
        }
        let done = |answer: &Poll<Result<_, Error>>| answer.is_ready();
        self.releases.retain_mut(|release| !release.is_due() || !done(&release.poll()));
        self.shutdowns.retain_mut(|shutdown| !shutdown.is_due() || shutdown.poll().is_pending());
    }

    /// With nothing under way, nobody waits who could be granted, and no try waits at all.
    pub fn check_nobody_is_forgotten(&mut self) {
        self.rig.settle();
        if self.rig.script.script().runtime_is_gone {
            return; // nobody can be asked: they are told when the holder leaves
        }
        self.check_no_wait_is_unwanted();
        for scope in self.scopes_waited_for() {
            let begun = self.waiting.iter().filter(|caller| caller.scope == scope && caller.asking.is_begun());
            if self.rig.script.is_asked(scope) || begun.clone().any(Waiting::is_told) {
                continue;
            }
            assert!(begun.clone().all(|caller| !caller.is_try), "a try waits for a holder or a waiter");
            let of_scope = || self.leases.iter().filter(|lease| *lease.scope() == scope);
            let mut live = of_scope().filter(|lease| lease.ensure_live().is_ok());
            let script = self.rig.script.script();
            if of_scope().any(is_revoked) {
                let held = script.held.get(&scope).is_some_and(|(.., session)| session.loss().is_none());
                assert!(held, "waits for who was revoked, and is lost");
                continue;
            }
            assert!(live.clone().next().is_some(), "waits for nobody");
            let told_of_others = script.held.get(&scope).is_some_and(|(id, ..)| script.contended.contains(id));
            let head = begun.min_by_key(|caller| caller.came);
            if head.is_some_and(|head| head.mode == Mode::Shared) && !told_of_others {
                assert!(live.any(|lease| lease.mode() == Mode::Exclusive), "a shared caller waits for shared ones");
            }
        }
    }

    /// A wait at the backend goes on only while the first in the queue wants what it waits for.
    fn check_no_wait_is_unwanted(&self) {
        let script = self.rig.script.script();
        for parked in &script.parked {
            let Asked::Lock { scope, mode, unwanted } = &parked.asked else { continue };
            let queued = self.waiting.iter().filter(|caller| caller.scope == *scope && caller.asking.is_begun());
            let head = queued.filter(|caller| !caller.is_told()).min_by_key(|caller| caller.came);
            assert!(head.is_some_and(|head| head.mode == *mode) || unwanted.is_cancelled(), "nobody wants it");
        }
    }

    fn scopes_waited_for(&self) -> Vec<Scope> {
        let begun = self.waiting.iter().filter(|caller| caller.asking.is_begun());
        let mut scopes: Vec<_> = begun.map(|caller| caller.scope).collect();
        scopes.sort_unstable();
        scopes.dedup();
        scopes
    }

    pub fn take_parked(&self, at: usize) -> Option<Parked> {
        self.rig.settle();
        let mut script = self.rig.script.script();
        (at < script.parked.len()).then(|| script.parked.remove(at))
    }

    /// The session is lost, and with it what is held on it.
    pub fn lose(&mut self, session: &Session) {
        for caller in &mut self.waiting {
            caller.may_be_lost |= caller.is_told();
        }
        session.lose(LossReason::Disconnected);
        self.may_fail = true; // who releases is told
    }

    /// Who holds the scope is asked to give up.
    pub fn revoke(&mut self, scope: Scope) {
        self.rig.settle(); // what is under way is granted before it is revoked
        for caller in &mut self.waiting {
            caller.may_be_lost |= caller.is_told();
        }
        self.may_fail = true; // who releases is told
        self.rig.revoke(scope);
    }

    pub fn lose_last(&mut self) {
        let session = self.rig.script.script().sessions.last().cloned();
        if let Some(session) = session {
            self.lose(&session);
        }
    }

    pub fn lose_all(&mut self) {
        let sessions = self.rig.script.script().sessions.clone();
        for session in &sessions {
            self.lose(session);
        }
    }

    /// Starts a release; `goes_on`: and keeps its future.
    pub fn release(&mut self, at: usize, goes_on: bool) {
        let mut release = Caller::new(self.leases.remove(at).release());
        if release.is_pending() && goes_on {
            self.releases.push(release);
        }
    }

    pub fn shut_down(&mut self, limit: Duration) {
        self.may_fail = true;
        let coordinator = Arc::clone(&self.rig.coordinator);
        let mut shutdown = Caller::new(async move { coordinator.shutdown(limit).await });
        if shutdown.is_pending() {
            self.shutdowns.push(shutdown);
        }
    }

    /// Every lease is dropped and every request granted: all are served or told, and nothing is left.
    pub fn drain(mut self) {
        for round in 0.. {
            self.rig.settle();
            for at in (0..self.waiting.len()).rev() {
                if !self.waiting[at].asking.is_begun() {
                    self.poll(at);
                }
            }
            self.receive();
            self.check_nobody_is_forgotten();
            self.leases.clear();
            while let Some(parked) = self.take_parked(0) {
                parked.agree();
            }
            let is_done = self.waiting.is_empty() && self.releases.is_empty() && self.shutdowns.is_empty();
            if is_done && self.leases.is_empty() && self.rig.scopes() == 0 {
                break;
            }
            let left = (self.waiting.len(), self.releases.len(), self.shutdowns.len(), self.rig.scopes());
            assert!(round < 500, "(waiting, releases, shutdowns, scopes) = {left:?} are left");
        }
        self.rig.settle();
        assert_eq!(self.rig.script.live(), [], "never unlocked");
    }
}

fn is_revoked(lease: &Lease) -> bool {
    lease.ensure_live().is_err_and(|error| error.kind() == ErrorKind::Lost(LossReason::Revoked))
}
