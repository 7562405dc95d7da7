//! What the clients of a case did and were told, and whether a lock may behave so.
//!
//! A [`History`] is a list of [`Event`]s on one clock, of one process or, merged, of several. [`History::check`] folds it
//! into [`Belief`]s, one for each lease, and says what is wrong. Neither does any I/O; a [`Recorder`] fills a history
//! while a case runs, and writes a failed one down, for reading and as a timeline.
//!
//! A client (one task, one connection; whatever asks for one thing at a time) is in one of these states for each scope:
//!
//! ```text
//!          Invoke            Grant            Release, Dropped, Lost, BeliefEnded, Killed
//!   idle ─────────▶ asking ─────────▶ holding ─────────▶ over
//!    ▲                 │                                  │
//!    └─────────────────┘ Refused, Failed, Dropped, Killed │ Invoke: asking again
//! ```
//!
//! The events move it, and nothing else does; one that does not fit is itself a [`Violation`].

mod beliefs;
mod check;
mod event;
mod held;
mod recorder;
mod remote;
mod timeline;
mod tokens;
mod violation;

pub use beliefs::{Belief, End, Fetched};
pub use check::Allowed;
pub use event::{Event, Step, What};
pub use held::Held;
pub use recorder::{Client, Recorder, write};
pub use timeline::html;
pub use violation::Violation;

pub(crate) use event::ModeName;

use crate::Moment;
use std::time::Duration;

/// What happened, in any order; the moments of the events tell which.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct History(Vec<Event>);

impl History {
    /// Adds an event. Of two at the same moment the one that was added first comes first.
    pub fn record(&mut self, event: Event) {
        self.0.push(event);
    }

    /// Adds what another process recorded on the same host; its clock is the same.
    pub fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The events in the order in which they happened.
    pub fn events(&self) -> Vec<&Event> {
        let mut events: Vec<_> = self.0.iter().collect();
        events.sort_by_key(|event| event.at); // stable
        events
    }

    /// What is wrong with it: nothing, if the lock kept its promises.
    pub fn check(&self, allowed: &Allowed) -> Vec<Violation> {
        check::check(self, allowed)
    }

    /// One for each lease that was granted, in the order of the grants.
    pub fn beliefs(&self) -> Vec<Belief> {
        beliefs::fold(self).beliefs
    }

    /// For how long two clients that exclude each other believed in their leases at the same time, at most.
    pub fn greatest_overlap(&self) -> Duration {
        check::greatest_overlap(self)
    }

    /// An event a line, as JSON, in their order.
    ///
    /// # Panics
    /// Never: an event is plain data.
    pub fn to_json_lines(&self) -> String {
        let line = |event: &Event| serde_json::to_string(event).expect("plain data") + "\n";
        self.events().into_iter().map(line).collect()
    }

    /// What [`to_json_lines`](Self::to_json_lines) wrote; lines that are blank are left out.
    ///
    /// # Errors
    /// Of the first line that is no event.
    pub fn from_json_lines(text: &str) -> Result<Self, serde_json::Error> {
        text.lines().filter(|line| !line.trim().is_empty()).map(serde_json::from_str).collect()
    }

    /// The last moment that it knows of.
    fn end(&self) -> Option<Moment> {
        self.0.iter().map(|event| event.at).max()
    }
}

impl FromIterator<Event> for History {
    fn from_iter<I: IntoIterator<Item = Event>>(events: I) -> Self {
        Self(events.into_iter().collect())
    }
}

impl Extend<Event> for History {
    fn extend<I: IntoIterator<Item = Event>>(&mut self, events: I) {
        self.0.extend(events);
    }
}
