//! A driver whose answers the test gives one by one.
#![allow(dead_code, unreachable_pub)] // each test binary uses its own part

pub mod caller;
pub mod driver;
pub mod parked;
pub mod rig;
pub mod world;

use coordinator_core::{Error, Lease, Mode, Scope, Session};
pub use driver::Backed;
use parked::Reply;
pub use parked::{Asked, Parked};
use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// A lock of the scripted backend; dropping any clone of it drops the leases that it is burdened with.
#[derive(Clone)]
pub struct Grant {
    pub id: u64,
    session: Session,
    burden: Arc<Mutex<Vec<Lease>>>,
}

impl coordinator_core::Grant for Grant {
    fn session(&self) -> &Session {
        &self.session
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        let burden = std::mem::take(&mut *lock(&self.burden));
        drop(burden);
    }
}

#[derive(Default)]
pub struct Script {
    pub parked: Vec<Parked>,
    /// What the backend holds for this instance; what is on a lost session is held no more.
    pub held: HashMap<Scope, (u64, Mode, Session)>,
    pub sessions: Vec<Session>,
    /// Grants of which the cohort was told that somebody else waits.
    pub contended: HashSet<u64>,
    /// Requests are answered at once: what is free is granted, nobody else waits.
    pub automatic: bool,
    pub runtime_is_gone: bool,
    burden: Arc<Mutex<Vec<Lease>>>,
    outstanding: Vec<Request>,
    unlocked: HashSet<u64>,
    violations: Vec<String>,
    next: u64,
}

#[derive(Clone, Default)]
pub struct Scripted(Arc<Mutex<Script>>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Scripted {
    pub fn script(&self) -> MutexGuard<'_, Script> {
        lock(&self.0)
    }

    /// A lock of the backend, on the last session (a new one if that is lost).
    pub fn grant(&self, scope: Scope, mode: Mode) -> Grant {
        let mut script = self.script();
        let live = script.sessions.last().filter(|session| session.loss().is_none()).cloned();
        let session = live.unwrap_or_else(|| {
            script.sessions.push(Session::unbounded());
            script.sessions[script.sessions.len() - 1].clone()
        });
        script.grant_on(session, scope, mode)
    }

    /// Every grant from here on drops these leases when a clone of it is dropped.
    pub fn burden(&self, leases: Vec<Lease>) {
        let burden = Arc::clone(&self.script().burden);
        *lock(&burden) = leases;
    }

    /// Whether a request for the scope is under way whose answer the cohort waits for.
    ///
    /// It does not wait for a look on a lost session; it waits for an unlock there.
    pub fn is_asked(&self, scope: Scope) -> bool {
        let script = self.script();
        script.outstanding.iter().any(|request| request.scope == scope && (request.is_unlock || request.is_live()))
    }

    /// The grants that are held and live.
    pub fn live(&self) -> Vec<(u64, Scope, Mode)> {
        let script = self.script();
        let live = script.held.iter().filter(|(_, (.., session))| session.loss().is_none());
        live.map(|(scope, (id, mode, _))| (*id, *scope, *mode)).collect()
    }

    pub fn assert_promises_kept(&self) {
        let violations = std::mem::take(&mut self.script().violations);
        assert!(violations.is_empty(), "{violations:?}");
    }

    pub async fn ask(&self, asked: Asked) -> Reply {
        let mut outstanding = self.begin(&asked);
        let (reply, told) = oneshot::channel();
        let parked = Parked { asked, reply, script: self.clone() };
        let automatic = self.script().automatic;
        if automatic {
            parked.agree();
        } else {
            self.script().parked.push(parked);
        }
        let reply = told.await.expect("the test answers every request");
        outstanding.is_answered = true;
        if matches!(reply, Reply::Panic) {
            resume_unwind(Box::new("as the script says")); // unlike `panic!`, silent
        }
        reply
    }

    fn begin(&self, asked: &Asked) -> Outstanding {
        let mut script = self.script();
        script.next += 1;
        let number = script.next;
        let request = |scope: &Scope, session| {
            let is_unlock = matches!(asked, Asked::Unlock { .. });
            Some(Request { number, scope: *scope, session, is_unlock })
        };
        let request = match asked {
            Asked::TryLock { scope, .. } | Asked::Lock { scope, .. } => request(scope, None),
            Asked::Unlock { scope, grant } | Asked::Contended { scope, grant, .. } => {
                request(scope, Some(grant.session.clone()))
            }
            _ => None,
        };
        if let Some(Request { scope, .. }) = &request
            && script.outstanding.iter().any(|other| other.scope == *scope && other.is_live())
        {
            script.violations.push(format!("a second request for a scope: {}", asked.name()));
        }
        if let Asked::Unlock { grant, .. } = asked
            && !script.unlocked.insert(grant.id)
        {
            script.violations.push(format!("grant {} is unlocked twice", grant.id));
        }
        script.outstanding.extend(request);
        drop(script);
        Outstanding { script: self.clone(), number, is_answered: false }
    }

    pub async fn ask_for_grant(&self, asked: Asked) -> Result<Option<Grant>, Error> {
        match self.ask(asked).await {
            Reply::Granted(grant) => Ok(Some(grant)),
            Reply::Failed(error) => Err(error),
            _ => Ok(None),
        }
    }

    pub async fn ask_to_do(&self, asked: Asked) -> Result<(), Error> {
        if let Reply::Failed(error) = self.ask(asked).await { Err(error) } else { Ok(()) }
    }
}

impl Script {
    pub fn free(&mut self, scope: Scope, grant: u64) {
        if self.held.get(&scope).is_some_and(|(id, ..)| *id == grant) {
            self.held.remove(&scope);
        }
    }

    pub fn grant_on(&mut self, session: Session, scope: Scope, mode: Mode) -> Grant {
        if self.held.get(&scope).is_some_and(|(.., session)| session.loss().is_none()) {
            self.violations.push("asked for a scope that is held already".into());
        }
        self.next += 1;
        self.held.insert(scope, (self.next, mode, session.clone()));
        Grant { id: self.next, session, burden: Arc::clone(&self.burden) }
    }
}

/// A request of which at most one may be under way for a scope.
struct Request {
    number: u64,
    scope: Scope,
    session: Option<Session>,
    is_unlock: bool,
}

impl Request {
    fn is_live(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.loss().is_none())
    }
}

struct Outstanding {
    script: Scripted,
    number: u64,
    is_answered: bool,
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        let mut script = self.script.script();
        script.outstanding.retain(|request| request.number != self.number);
        if !self.is_answered && !script.runtime_is_gone {
            script.violations.push("a driver future was dropped half-way".into());
        }
    }
}
