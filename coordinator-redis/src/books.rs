use crate::grant::Entry;
use coordinator_core::Scope;
use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a session has at the server, as far as this side knows.
#[derive(Default, Debug)]
pub(crate) struct Books(Mutex<Pages>);

#[derive(Default, Debug)]
struct Pages {
    held: HashMap<Scope, Entry>,
    /// Of requests that were sent and never answered: there or not, they are to go.
    doubtful: HashSet<(Scope, Entry)>,
}

impl Books {
    pub(crate) fn hold(&self, scope: Scope, entry: Entry) {
        self.pages().held.insert(scope, entry);
    }

    /// Before the server is asked to free it: what it does not find held from here on may be no loss.
    pub(crate) fn release(&self, scope: &Scope, entry: Entry) {
        let mut pages = self.pages();
        if pages.held.get(scope) == Some(&entry) {
            pages.held.remove(scope);
        }
    }

    pub(crate) fn holds(&self, scope: &Scope, entry: Entry) -> bool {
        self.pages().held.get(scope) == Some(&entry)
    }

    pub(crate) fn held(&self) -> Vec<(Scope, Entry)> {
        self.pages().held.iter().map(|(scope, entry)| (*scope, *entry)).collect()
    }

    pub(crate) fn doubt(&self, scope: Scope, entry: Entry) {
        self.pages().doubtful.insert((scope, entry));
    }

    /// The server has said that it is gone.
    pub(crate) fn settle(&self, scope: Scope, entry: Entry) {
        self.pages().doubtful.remove(&(scope, entry));
    }

    pub(crate) fn doubtful(&self) -> Vec<(Scope, Entry)> {
        self.pages().doubtful.iter().copied().collect()
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
