//! The queue of one scope: this instance's callers, of whom only the head is known to the backend.
//!
//! A state machine without I/O: each event adds to its [`Turn`] what is to be done. States of the backend's lock,
//! moved only under the shard's lock:
//!
//! ```text
//! Idle ─ask→ Trying ─granted→ Held ─free→ Freeing ─freed→ Idle (over) | Trying
//!              │ none           │ session lost → Idle (over) | Trying
//!              ↓                └ window: Open ─expired→ Probing ─nobody else→ Open
//!            InLine ─granted→ Held                          └─somebody→ Closed
//! ```

use super::{Answer, Granted, Held, Patience, Request, Room, Turn, Waiters, Window, Wish};
use crate::{CancellationToken, Error, Grant, Inspection, LossReason, Mode, Party};
use tokio::sync::oneshot::Receiver;

pub(super) struct ScopeQueue<G> {
    backend: Backend<G>,
    waiters: Waiters<G>,
    _room: Room,
}

enum Backend<G> {
    Idle,
    /// Trying; or in line, until it is unwanted.
    Asked(Mode, Option<CancellationToken>),
    Held(Held<G>),
    Freeing,
}

/// How a caller's request was met.
pub(super) enum Arrival<G> {
    Answered(Answer<G>),
    /// Under this ticket.
    Queued(u64, Receiver<Answer<G>>),
    /// The instance is at its cap of scopes.
    Full,
}

impl<G: Grant> ScopeQueue<G> {
    /// Without a backend it is held at once.
    pub(super) fn new(without_backend: Option<Granted<G>>, room: Room) -> Self {
        let held = |granted| Held { granted, mode: Mode::Exclusive, leases: 0, window: Window::Unbounded };
        let backend = without_backend.map_or(Backend::Idle, |granted| Backend::Held(held(granted)));
        Self { backend, waiters: Waiters::new(), _room: room }
    }

    /// Nobody holds the scope or waits for it: the queue costs nothing any more.
    pub(super) fn is_over(&self) -> bool {
        match &self.backend {
            Backend::Idle => true,
            Backend::Held(held) => held.window == Window::Unbounded && held.leases == 0,
            _ => false,
        }
    }

    /// What this instance knows; the driver adds the others and the instance's name.
    pub(super) fn inspection(&self) -> Inspection {
        let party = |mode| Party::new("", Some(mode), None);
        let (mode, leases) = self.leases();
        Inspection::new(vec![party(mode); leases], self.waiters.wishes().map(|(mode, _)| party(mode)).collect())
    }

    /// How the scope is held, and by how many.
    pub(super) fn leases(&self) -> (Mode, usize) {
        match &self.backend {
            Backend::Held(held) => (held.mode, held.leases),
            _ => (Mode::Shared, 0),
        }
    }

    pub(super) fn arrive(&mut self, (mode, patience): Wish, turn: &mut Turn<'_, G>) -> Arrival<G> {
        let is_in_the_way = match &mut self.backend {
            Backend::Held(held) if held.is_live() => {
                let admitted = held.admits(mode);
                if admitted && held.gives(mode) && held.window.is_open(turn.now) && self.waiters.head().is_none() {
                    return Arrival::Answered(Ok(Some(held.lend(mode))));
                }
                !admitted
            }
            Backend::Asked(_, unwanted) => unwanted.is_some(),
            _ => false,
        };
        if is_in_the_way && patience == Patience::Try {
            return Arrival::Answered(Ok(None));
        }
        let told = self.waiters.push(turn.number, (mode, patience));
        self.advance(turn);
        Arrival::Queued(turn.number, told)
    }

    /// A waiter went away before it was answered.
    pub(super) fn cancel(&mut self, ticket: u64, turn: &mut Turn<'_, G>) {
        self.waiters.remove(ticket);
        // Also when others remain who want another mode: they must not wait for what nobody wants.
        if let Backend::Asked(mode, unwanted) = &self.backend
            && self.waiters.head().map(|(wanted, _)| wanted) != Some(*mode)
        {
            turn.unwanted.clone_from(unwanted);
        }
        self.advance(turn);
    }

    /// A holder of this tenure left; of an earlier one: it was lost, and counts no more.
    pub(super) fn leave(&mut self, tenure: u64, turn: &mut Turn<'_, G>) {
        if let Backend::Held(held) = &mut self.backend
            && held.granted.tenure == tenure
        {
            // Else it is counted among the lost.
            if held.is_live() {
                held.leases = held.leases.saturating_sub(1);
            }
            self.advance(turn);
        }
    }

    /// The driver answered a try or a wait.
    pub(super) fn answered(&mut self, answer: Result<Option<G>, Error>, turn: &mut Turn<'_, G>) {
        let Backend::Asked(mode, unwanted) = &self.backend else { return };
        let (mode, was_in_line) = (*mode, unwanted.is_some());
        match answer {
            Ok(Some(grant)) => {
                let granted = Granted { session: grant.session().child(), grant, tenure: turn.number };
                let window = Window::open(turn.now, None, turn.options);
                self.backend = Backend::Held(Held { granted, mode, leases: 0, window });
                self.grant_head(turn); // whatever the window: else a window of zero would only ever ask
                self.advance(turn);
            }
            Ok(None) if was_in_line => self.ask(None, turn),
            Ok(None) => {
                while let Some((wanted, Patience::Try)) = self.waiters.head()
                    && (wanted == mode || mode == Mode::Shared)
                {
                    self.waiters.settle_head(Ok(None), turn);
                }
                // A shared try may get what an exclusive one did not.
                if self.waiters.head() != Some((mode, Patience::Wait)) {
                    return self.ask(None, turn);
                }
                self.waiters.settle_tries(&Ok(None), turn);
                self.ask(Some(CancellationToken::new()), turn);
            }
            Err(error) if !was_in_line && turn.options.outlast_outages && error.is_retryable() => {
                self.waiters.settle_tries(&Err(error), turn);
                self.ask(Some(CancellationToken::new()), turn);
            }
            // All of them: one after the other would wait for one connect time-out each.
            Err(error) => {
                self.waiters.settle_all(&Err(error), turn);
                self.backend = Backend::Idle;
            }
        }
    }

    /// The driver answered whether somebody else waits.
    pub(super) fn probed(&mut self, tenure: u64, contended: bool, turn: &mut Turn<'_, G>) {
        if let Backend::Held(held) = &mut self.backend
            && held.granted.tenure == tenure
            && let Window::Probing { limit } = held.window
        {
            if contended || held.is_revoked() {
                held.window = Window::Closed;
            } else {
                held.window = Window::open(turn.now, limit, turn.options);
                self.grant_head(turn);
            }
            self.advance(turn);
        }
    }

    /// The driver has freed the lock, or its session is gone.
    pub(super) fn freed(&mut self, turn: &mut Turn<'_, G>) {
        if matches!(self.backend, Backend::Freeing) {
            self.ask(None, turn);
        }
    }

    /// If the session is lost, the holders are not waited for: those who wait ask anew at once.
    pub(super) fn look_for_loss(&mut self, turn: &mut Turn<'_, G>) {
        let Backend::Held(held) = &self.backend else { return };
        let Some(reason) = held.granted.grant.session().judge() else { return };
        if held.window == Window::Unbounded {
            self.waiters.settle_all(&Err(Error::lost("acquire", reason)), turn);
        }
        if let Backend::Held(held) = std::mem::replace(&mut self.backend, Backend::Idle) {
            let told = held.is_revoked(); // and counted then
            turn.lost = Some((held.granted, if told { 0 } else { held.leases }));
        }
        self.ask(None, turn);
    }

    /// Who holds is asked to give up: nobody joins, and the lock is freed when the last has left.
    pub(super) fn revoke(&mut self, turn: &mut Turn<'_, G>) {
        if let Backend::Held(held) = &mut self.backend
            && held.window != Window::Unbounded
            && held.granted.session.judge().is_none()
        {
            held.granted.session.condemn(LossReason::Revoked);
            turn.lost = Some((held.granted.clone(), held.leases));
            if let Window::Open { .. } = held.window {
                held.window = Window::Closed; // a probe closes it when it is answered
            }
            self.advance(turn);
        }
    }

    /// Shutdown: who waits is refused.
    pub(super) fn refuse_waiters(&mut self, error: Error, turn: &mut Turn<'_, G>) {
        self.waiters.settle_all(&Err(error), turn);
        if let Backend::Asked(_, unwanted) = &self.backend {
            turn.unwanted.clone_from(unwanted);
        }
    }

    /// Grants what can be granted now, then asks for or frees what is due.
    fn advance(&mut self, turn: &mut Turn<'_, G>) {
        if matches!(self.backend, Backend::Idle) {
            return self.ask(None, turn);
        }
        while let Backend::Held(held) = &mut self.backend {
            if !held.is_live() {
                return self.look_for_loss(turn);
            }
            if matches!(held.window, Window::Probing { .. }) {
                return;
            }
            let Some((mode, patience)) = self.waiters.head() else {
                if held.leases == 0 && held.window != Window::Unbounded {
                    self.free(turn);
                }
                return;
            };
            if !held.admits(mode) {
                if patience == Patience::Wait {
                    return self.waiters.settle_tries(&Ok(None), turn);
                }
                self.waiters.settle_head(Ok(None), turn);
            } else if held.gives(mode) && held.window.is_open(turn.now) {
                self.grant_head(turn);
            } else if !held.gives(mode) || held.window.is_spent(turn.now) && held.leases == 0 {
                return self.free(turn);
            } else {
                let (granted, look) = (held.granted.clone(), held.window.probe(turn.now));
                turn.request = Some(Request::Contended(granted, look));
                return;
            }
        }
    }

    /// The first waiter gets the lock, if it wants this mode and nobody is in its way.
    fn grant_head(&mut self, turn: &mut Turn<'_, G>) {
        if let Backend::Held(held) = &mut self.backend
            && let Some((mode, _)) = self.waiters.head()
            && held.gives(mode)
            && held.admits(mode)
            && held.is_live()
        {
            self.waiters.settle_head(Ok(Some(held.lend(mode))), turn);
        }
    }

    /// Asks the backend for the head of the queue, by a try or in line; without a head the queue is over.
    fn ask(&mut self, unwanted: Option<CancellationToken>, turn: &mut Turn<'_, G>) {
        self.backend = Backend::Idle;
        if let Some((mode, _)) = self.waiters.head() {
            turn.request = Some(Request::Lock(mode, unwanted.clone()));
            self.backend = Backend::Asked(mode, unwanted);
        }
    }

    fn free(&mut self, turn: &mut Turn<'_, G>) {
        if let Backend::Held(held) = std::mem::replace(&mut self.backend, Backend::Freeing) {
            turn.request = Some(Request::Unlock(held.granted.grant));
        }
    }
}
