//! The queue of one scope: this instance's callers, of whom only the head is known to the backend.
//!
//! A state machine without I/O: each event returns what is to be done in [`Effects`]. States of the backend's lock,
//! moved only under the shard's lock:
//!
//! ```text
//! Idle ─ask→ Trying ─granted→ Held ─free→ Freeing ─freed→ Idle (over) | Trying
//!              │ none           │ session lost → Idle (over) | Trying
//!              ↓                └ window: Open ─expired→ Probing ─nobody else→ Open
//!            InLine ─granted→ Held                          └─somebody→ Closed
//! ```

use super::{
    effects::{Dropped, Effects, Lost, Request},
    rules::{Rules, Users, Window},
    slot::{Granted, Slot},
    waiters::{Patience, Waiters},
};
use crate::{Error, Grant, Inspection, Left, Mode, Party, Scope, Wanted};
use std::{sync::Arc, time::Instant};
use tokio::sync::OwnedSemaphorePermit;

pub(super) struct ScopeQueue<G> {
    pub(super) backend: Backend<G>,
    pub(super) users: Users,
    waiters: Waiters<G>,
    #[expect(dead_code, reason = "given back by its drop")]
    room: Option<OwnedSemaphorePermit>,
}

pub(super) enum Backend<G> {
    Idle,
    Trying { mode: Mode },
    InLine { mode: Mode, wanted: Wanted },
    Held(Held<G>),
    Freeing,
}

pub(super) struct Held<G> {
    pub(super) granted: Granted<G>,
    pub(super) mode: Mode,
    pub(super) window: Window,
}

pub(super) enum Arrival<G> {
    Granted(Granted<G>),
    Refused,
    Queued(Arc<Slot<G>>),
}

impl<G: Grant> ScopeQueue<G> {
    pub(super) fn new(room: Option<OwnedSemaphorePermit>) -> Self {
        Self { backend: Backend::Idle, users: Users::None, waiters: Waiters::new(), room }
    }

    /// Held at once: there is no backend.
    pub(super) fn without_backend(granted: Granted<G>) -> Self {
        let mut queue = Self::new(None);
        queue.backend = Backend::Held(Held { granted, mode: Mode::Exclusive, window: Window::Unbounded });
        queue
    }

    /// Nobody holds the scope or waits for it: the queue costs nothing any more.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.backend, Backend::Idle)
    }

    /// What this instance knows; the driver adds the others and the instance's name.
    pub(super) fn inspection(&self) -> Inspection {
        let party = |mode| Party::new("", Some(mode), None);
        let holders = self.users.mode().map_or_else(Vec::new, |mode| vec![party(mode); self.users.count()]);
        Inspection::new(holders, self.waiters.modes().map(party).collect())
    }

    pub(super) fn left(&self, scope: Scope) -> Option<Left> {
        self.users.mode().map(|mode| Left::new(scope, mode, self.users.count()))
    }

    pub(super) fn arrive(
        &mut self,
        ticket: u64,
        mode: Mode,
        patience: Patience,
        effects: &mut Effects<G>,
    ) -> Arrival<G> {
        let now = Instant::now();
        if let Backend::Held(held) = &self.backend {
            let joins = self.waiters.is_empty()
                && self.users.admit(mode)
                && (held.mode == mode || held.window == Window::Unbounded)
                && held.window.is_open(now)
                && held.granted.grant.session().loss().is_none();
            if joins {
                self.users.add(mode);
                return Arrival::Granted(held.granted.clone());
            }
        }
        if patience == Patience::Try && self.is_in_the_way_of_a_try(mode) {
            return Arrival::Refused;
        }
        let slot = self.waiters.push(ticket, mode, patience);
        self.advance(now, effects);
        Arrival::Queued(slot)
    }

    fn is_in_the_way_of_a_try(&self, mode: Mode) -> bool {
        match &self.backend {
            Backend::InLine { .. } => true,
            Backend::Held(held) => {
                held.granted.grant.session().loss().is_none()
                    && (!self.users.admit(mode) || held.window == Window::Closed && self.users != Users::None)
            }
            Backend::Idle | Backend::Trying { .. } | Backend::Freeing => false,
        }
    }

    /// A waiter went away before it was answered.
    pub(super) fn cancel(&mut self, ticket: u64, effects: &mut Effects<G>) {
        self.waiters.remove(ticket);
        let head = self.waiters.head().map(|(mode, _)| mode);
        match &self.backend {
            // Also when others remain who want another mode: they must not wait for what nobody wants.
            Backend::InLine { mode, wanted } if head != Some(*mode) => effects.unwanted = Some(wanted.clone()),
            _ => self.advance(Instant::now(), effects),
        }
    }

    /// A holder of this tenure left; of an earlier one: it was lost, and counts no more.
    pub(super) fn leave(&mut self, tenure: u64, effects: &mut Effects<G>) {
        if let Backend::Held(held) = &self.backend
            && held.granted.tenure == tenure
        {
            self.users.remove();
            self.advance(Instant::now(), effects);
        }
    }

    /// The driver answered a try or a wait.
    pub(super) fn answered(
        &mut self,
        answer: Result<Option<G>, Error>,
        tenure: u64,
        rules: &Rules,
        effects: &mut Effects<G>,
    ) {
        let (mode, was_in_line) = match &self.backend {
            Backend::Trying { mode } => (*mode, false),
            Backend::InLine { mode, .. } => (*mode, true),
            _ => return,
        };
        let head = self.waiters.head().map(|(mode, _)| mode);
        match answer {
            Ok(Some(grant)) => {
                let now = Instant::now();
                let window = rules.open(now);
                self.backend = Backend::Held(Held { granted: Granted { grant, tenure }, mode, window });
                self.grant_head(mode, effects);
                self.advance(now, effects);
            }
            Ok(None) if was_in_line => self.ask(effects),
            Ok(None) => {
                self.waiters.settle_tries(&Ok(None), effects);
                match head {
                    Some(head) if head == mode => self.stand_in_line(effects),
                    _ => self.ask(effects),
                }
            }
            Err(error) if !was_in_line && rules.outlasts(&error) => {
                self.waiters.settle_tries(&Err(error), effects);
                self.stand_in_line(effects);
            }
            // All of them: one after the other would wait for one connect time-out each.
            Err(error) => {
                self.waiters.settle_all(&Err(error), effects);
                self.backend = Backend::Idle;
            }
        }
    }

    /// The driver answered whether somebody else waits.
    pub(super) fn probed(&mut self, tenure: u64, contended: bool, rules: &Rules, effects: &mut Effects<G>) {
        let now = Instant::now();
        let Backend::Held(held) = &mut self.backend else { return };
        let Window::Probing { limit, look } = held.window else { return };
        if held.granted.tenure != tenure {
            return;
        }
        held.window = if contended { Window::Closed } else { rules.extend(now, limit, look) };
        let (mode, session_lives) = (held.mode, held.granted.grant.session().loss().is_none());
        if !contended && session_lives {
            self.grant_head(mode, effects); // whatever the window: else a window of zero would only ever ask
        }
        self.advance(now, effects);
    }

    /// The driver has freed the lock, or its session is gone.
    pub(super) fn freed(&mut self, effects: &mut Effects<G>) {
        if matches!(self.backend, Backend::Freeing) {
            self.ask(effects);
        }
    }

    /// If the session is lost, the holders are not waited for: those who wait ask anew at once.
    pub(super) fn look_for_loss(&mut self, effects: &mut Effects<G>) {
        let Backend::Held(held) = &self.backend else { return };
        let Some(reason) = held.granted.grant.session().loss() else { return };
        let unbounded = held.window == Window::Unbounded;
        effects.lost = Some(Lost { leases: self.users.count(), reason });
        self.users = Users::None;
        if let Backend::Held(held) = std::mem::replace(&mut self.backend, Backend::Idle) {
            effects.dropped.push(Dropped::Grant(held.granted.grant));
        }
        if unbounded {
            self.waiters.settle_all(&Err(Error::lost("acquire", reason)), effects);
        } else {
            self.ask(effects);
        }
    }

    /// Shutdown: who waits is refused.
    pub(super) fn refuse_waiters(&mut self, error: &Error, effects: &mut Effects<G>) {
        self.waiters.settle_all(&Err(error.clone()), effects);
        if let Backend::InLine { wanted, .. } = &self.backend {
            effects.unwanted = Some(wanted.clone());
        }
    }

    /// Grants what can be granted now, then asks for or frees what is due.
    fn advance(&mut self, now: Instant, effects: &mut Effects<G>) {
        loop {
            if matches!(self.backend, Backend::Idle) {
                return self.ask(effects);
            }
            let Backend::Held(held) = &mut self.backend else { return };
            if held.granted.grant.session().loss().is_some() {
                return self.look_for_loss(effects);
            }
            if matches!(held.window, Window::Probing { .. }) {
                return;
            }
            let Some((mode, patience)) = self.waiters.head() else {
                if self.users == Users::None {
                    self.free(effects);
                }
                return;
            };
            let in_the_way = !self.users.admit(mode) || held.window == Window::Closed && self.users != Users::None;
            if in_the_way {
                if patience == Patience::Wait {
                    return self.waiters.settle_tries(&Ok(None), effects);
                }
                self.waiters.settle_head(Ok(None), effects);
            } else if held.window == Window::Unbounded || held.mode == mode && held.window.is_open(now) {
                self.grant_head(mode, effects);
            } else if held.mode != mode || held.window.is_spent(now) && self.users == Users::None {
                // An exclusive lock is not handed to shared callers: those of other instances may join them.
                return self.free(effects);
            } else {
                let (window, look) = held.window.probe(now);
                held.window = window;
                let Granted { grant, tenure } = held.granted.clone();
                return effects.ask(Request::Contended { grant, tenure, look });
            }
        }
    }

    /// The first waiter gets the lock, if it wants this mode and nobody is in its way.
    fn grant_head(&mut self, mode: Mode, effects: &mut Effects<G>) {
        let Backend::Held(held) = &self.backend else { return };
        let wants = self.waiters.head().is_some_and(|(wanted, _)| wanted == mode);
        if wants && self.users.admit(mode) && held.granted.grant.session().loss().is_none() {
            let granted = held.granted.clone();
            self.users.add(mode);
            self.waiters.settle_head(Ok(Some(granted)), effects);
        }
    }

    /// Asks the backend for the head of the queue; without one the queue is over.
    fn ask(&mut self, effects: &mut Effects<G>) {
        self.backend = match self.waiters.head() {
            None => Backend::Idle,
            Some((mode, _)) => {
                effects.ask(Request::TryLock { mode });
                Backend::Trying { mode }
            }
        };
    }

    fn stand_in_line(&mut self, effects: &mut Effects<G>) {
        self.backend = match self.waiters.head() {
            None => Backend::Idle,
            Some((mode, _)) => {
                let wanted = Wanted::default();
                effects.ask(Request::Lock { mode, wanted: wanted.clone() });
                Backend::InLine { mode, wanted }
            }
        };
    }

    fn free(&mut self, effects: &mut Effects<G>) {
        if let Backend::Held(held) = std::mem::replace(&mut self.backend, Backend::Freeing) {
            let grant = held.granted.grant;
            if held.window == Window::Unbounded {
                effects.dropped.push(Dropped::Grant(grant));
                self.backend = Backend::Idle;
            } else {
                effects.ask(Request::Unlock { grant });
            }
        }
    }
}
