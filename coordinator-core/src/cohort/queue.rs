//! The queue of one scope: this instance's callers, of whom only the head is known to the backend.
//!
//! A state machine without I/O: each event adds to [`Effects`] what is to be done. States of the backend's lock,
//! moved only under the shard's lock:
//!
//! ```text
//! Idle ─ask→ Trying ─granted→ Held ─free→ Freeing ─freed→ Idle (over) | Trying
//!              │ none           │ session lost → Idle (over) | Trying
//!              ↓                └ window: Open ─expired→ Probing ─nobody else→ Open
//!            InLine ─granted→ Held                          └─somebody→ Closed
//! ```

use super::CohortOptions;
use super::effects::{Answer, Effects, Granted, Lost, Request};
use super::waiters::{Patience, Waiters};
use super::window::{Users, Window};
use crate::{Error, ErrorKind, Grant, Inspection, Left, Mode, Party, Scope};
use std::time::Instant;
use tokio::sync::{OwnedSemaphorePermit, oneshot::Receiver};
use tokio_util::sync::CancellationToken;

pub(super) struct ScopeQueue<G> {
    backend: Backend<G>,
    users: Users,
    waiters: Waiters<G>,
    _room: Option<OwnedSemaphorePermit>,
}

enum Backend<G> {
    Idle,
    Trying { mode: Mode },
    InLine { mode: Mode, unwanted: CancellationToken },
    Held(Held<G>),
    Freeing,
}

struct Held<G> {
    granted: Granted<G>,
    mode: Mode,
    window: Window,
}

/// How a caller's request was met.
pub(super) enum Arrival<G> {
    Granted(Granted<G>),
    Refused,
    /// Under this ticket.
    Queued(u64, Receiver<Answer<G>>),
    /// The instance is at its cap of scopes.
    Full,
    Closed,
}

impl<G: Grant> ScopeQueue<G> {
    pub(super) fn new(room: Option<OwnedSemaphorePermit>) -> Self {
        Self { backend: Backend::Idle, users: Users::None, waiters: Waiters::new(), _room: room }
    }

    /// Held at once: there is no backend.
    pub(super) fn without_backend(granted: Granted<G>, room: Option<OwnedSemaphorePermit>) -> Self {
        let held = Held { granted, mode: Mode::Exclusive, window: Window::Unbounded };
        Self { backend: Backend::Held(held), ..Self::new(room) }
    }

    /// Nobody holds the scope or waits for it: the queue costs nothing any more.
    pub(super) fn is_over(&self) -> bool {
        match &self.backend {
            Backend::Idle => true,
            Backend::Held(held) => held.window == Window::Unbounded && self.users == Users::None,
            _ => false,
        }
    }

    /// What this instance knows; the driver adds the others and the instance's name.
    pub(super) fn inspection(&self) -> Inspection {
        let party = |mode| Party::new("", Some(mode), None);
        let (mode, users) = self.users.count();
        Inspection::new(vec![party(mode); users], self.waiters.modes().map(party).collect())
    }

    pub(super) fn left(&self, scope: Scope) -> Option<Left> {
        let (mode, leases) = self.users.count();
        (leases > 0).then_some(Left { scope, mode, leases })
    }

    pub(super) fn arrive(
        &mut self,
        ticket: u64,
        mode: Mode,
        patience: Patience,
        effects: &mut Effects<G>,
    ) -> Arrival<G> {
        let now = Instant::now();
        if let Backend::Held(held) = &self.backend
            && self.waiters.head().is_none()
            && self.can_be_used(held, mode, now)
        {
            self.users.add(mode);
            return Arrival::Granted(held.granted.clone());
        }
        if patience == Patience::Try && self.is_in_the_way_of_a_try(mode) {
            return Arrival::Refused;
        }
        let told = self.waiters.push(ticket, mode, patience);
        self.advance(now, effects);
        Arrival::Queued(ticket, told)
    }

    fn can_be_used(&self, held: &Held<G>, mode: Mode, now: Instant) -> bool {
        self.users.admit(mode) && held.gives(mode) && held.window.is_open(now) && held.is_live()
    }

    fn is_in_the_way_of_a_try(&self, mode: Mode) -> bool {
        match &self.backend {
            Backend::InLine { .. } => true,
            Backend::Held(held) => held.is_live() && self.must_wait(held, mode),
            Backend::Idle | Backend::Trying { .. } | Backend::Freeing => false,
        }
    }

    /// Whether who is in has to leave first.
    fn must_wait(&self, held: &Held<G>, mode: Mode) -> bool {
        !self.users.admit(mode) || held.window == Window::Closed && self.users != Users::None
    }

    /// A waiter went away before it was answered.
    pub(super) fn cancel(&mut self, ticket: u64, effects: &mut Effects<G>) {
        self.waiters.remove(ticket);
        match &self.backend {
            // Also when others remain who want another mode: they must not wait for what nobody wants.
            Backend::InLine { mode, unwanted } if !self.head_wants(*mode) => effects.unwanted = Some(unwanted.clone()),
            _ => self.advance(Instant::now(), effects),
        }
    }

    /// A holder of this tenure left; of an earlier one: it was lost, and counts no more.
    pub(super) fn leave(&mut self, tenure: u64, effects: &mut Effects<G>) {
        if let Backend::Held(held) = &self.backend
            && held.granted.tenure == tenure
        {
            // Else it is counted among the lost.
            if held.is_live() {
                self.users.remove();
            }
            self.advance(Instant::now(), effects);
        }
    }

    /// The driver answered a try or a wait.
    pub(super) fn answered(
        &mut self,
        answer: Result<Option<G>, Error>,
        tenure: u64,
        options: &CohortOptions,
        effects: &mut Effects<G>,
    ) {
        let (mode, was_in_line) = match &self.backend {
            Backend::Trying { mode } => (*mode, false),
            Backend::InLine { mode, .. } => (*mode, true),
            _ => return,
        };
        match answer {
            Ok(Some(grant)) => {
                let now = Instant::now();
                let window = Window::open(now, options);
                self.backend = Backend::Held(Held { granted: Granted { grant, tenure }, mode, window });
                self.grant_head(mode, effects); // whatever the window: else a window of zero would only ever ask
                self.advance(now, effects);
            }
            Ok(None) if was_in_line => self.ask(effects),
            Ok(None) => {
                let refused = |wanted| wanted == mode || mode == Mode::Shared;
                while let Some((wanted, Patience::Try)) = self.waiters.head()
                    && refused(wanted)
                {
                    self.waiters.settle_head(Ok(None), effects);
                }
                // A shared try may get what an exclusive one did not.
                if self.waiters.head() != Some((mode, Patience::Wait)) {
                    return self.ask(effects);
                }
                self.waiters.settle_tries(&Ok(None), effects);
                self.stand_in_line(mode, effects);
            }
            Err(error) if !was_in_line && options.outlast_outages && error.kind() == ErrorKind::Unavailable => {
                self.waiters.settle_tries(&Err(error), effects);
                match self.waiters.head() {
                    Some((mode, _)) => self.stand_in_line(mode, effects),
                    None => self.backend = Backend::Idle,
                }
            }
            // All of them: one after the other would wait for one connect time-out each.
            Err(error) => {
                self.waiters.settle_all(&Err(error), effects);
                self.backend = Backend::Idle;
            }
        }
    }

    /// The driver answered whether somebody else waits.
    pub(super) fn probed(&mut self, tenure: u64, contended: bool, options: &CohortOptions, effects: &mut Effects<G>) {
        let now = Instant::now();
        if let Backend::Held(held) = &mut self.backend
            && held.granted.tenure == tenure
        {
            let mode = held.mode;
            if contended {
                held.window = Window::Closed;
            } else {
                held.window.reopen(now, options);
                self.grant_head(mode, effects);
            }
            self.advance(now, effects);
        }
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
        let Some(reason) = held.granted.grant.session().judge() else { return };
        let (_, leases) = self.users.count();
        self.users = Users::None;
        if held.window == Window::Unbounded {
            self.waiters.settle_all(&Err(Error::lost("acquire", reason)), effects);
        }
        if let Backend::Held(held) = std::mem::replace(&mut self.backend, Backend::Idle) {
            effects.lost = Some(Lost { leases, reason, granted: held.granted });
        }
        self.ask(effects);
    }

    /// Shutdown: who waits is refused.
    pub(super) fn refuse_waiters(&mut self, error: &Error, effects: &mut Effects<G>) {
        self.waiters.settle_all(&Err(error.clone()), effects);
        if let Backend::InLine { unwanted, .. } = &self.backend {
            effects.unwanted = Some(unwanted.clone());
        }
    }

    /// Grants what can be granted now, then asks for or frees what is due.
    fn advance(&mut self, now: Instant, effects: &mut Effects<G>) {
        if matches!(self.backend, Backend::Idle) {
            return self.ask(effects);
        }
        while let Backend::Held(held) = &mut self.backend {
            if !held.is_live() {
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
            if self.users != Users::None && (held.window == Window::Closed || !self.users.admit(mode)) {
                if patience == Patience::Wait {
                    return self.waiters.settle_tries(&Ok(None), effects);
                }
                self.waiters.settle_head(Ok(None), effects);
            } else if held.gives(mode) && held.window.is_open(now) {
                self.grant_head(mode, effects);
            } else if !held.gives(mode) || held.window.is_spent(now) && self.users == Users::None {
                return self.free(effects);
            } else {
                let look = held.window.probe(now);
                let Granted { grant, tenure } = held.granted.clone();
                effects.request = Some(Request::Contended { grant, tenure, look });
                return;
            }
        }
    }

    fn head_wants(&self, mode: Mode) -> bool {
        self.waiters.head().is_some_and(|(wanted, _)| wanted == mode)
    }

    /// The first waiter gets the lock, if it wants this mode and nobody is in its way.
    fn grant_head(&mut self, mode: Mode, effects: &mut Effects<G>) {
        let Backend::Held(held) = &self.backend else { return };
        if self.head_wants(mode) && self.users.admit(mode) && held.is_live() {
            let granted = held.granted.clone();
            self.users.add(mode);
            self.waiters.settle_head(Ok(Some(granted)), effects);
        }
    }

    /// Asks the backend for the head of the queue; without one the queue is over.
    fn ask(&mut self, effects: &mut Effects<G>) {
        self.backend = Backend::Idle;
        if let Some((mode, _)) = self.waiters.head() {
            self.backend = Backend::Trying { mode };
            effects.request = Some(Request::TryLock { mode });
        }
    }

    fn stand_in_line(&mut self, mode: Mode, effects: &mut Effects<G>) {
        let unwanted = CancellationToken::new();
        self.backend = Backend::InLine { mode, unwanted: unwanted.clone() };
        effects.request = Some(Request::Lock { mode, unwanted });
    }

    fn free(&mut self, effects: &mut Effects<G>) {
        if self.is_over() {
            return; // nothing to free where there is no backend
        }
        if let Backend::Held(held) = std::mem::replace(&mut self.backend, Backend::Freeing) {
            effects.request = Some(Request::Unlock { grant: held.granted.grant });
        }
    }
}

impl<G: Grant> Held<G> {
    fn is_live(&self) -> bool {
        self.granted.grant.session().judge().is_none()
    }

    /// An exclusive lock is not handed to shared callers: those of other instances may join them.
    fn gives(&self, mode: Mode) -> bool {
        self.mode == mode || self.window == Window::Unbounded
    }
}
