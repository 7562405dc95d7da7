use crate::Scope;
use std::{future::Future, sync::Arc};

/// The scopes that the current task holds through `under_lock`, innermost first.
struct Held {
    coordinator: usize,
    scope: Scope,
    outer: Option<Arc<Held>>,
}

tokio::task_local! {
    static HELD: Option<Arc<Held>>;
}

fn current() -> Option<Arc<Held>> {
    HELD.try_with(Clone::clone).ok().flatten()
}

pub(crate) fn holds(coordinator: usize, scope: &Scope) -> bool {
    let current = current();
    let mut at = current.as_ref();
    while let Some(held) = at {
        if held.coordinator == coordinator && held.scope == *scope {
            return true;
        }
        at = held.outer.as_ref();
    }
    false
}

/// `work`, knowing that its task holds `scope`.
pub(crate) fn holding<F: Future>(coordinator: usize, scope: Scope, work: F) -> impl Future<Output = F::Output> {
    HELD.scope(Some(Arc::new(Held { coordinator, scope, outer: current() })), work)
}

/// `step`, knowing on another task what the current one holds.
pub(crate) fn inherit<F: Future>(step: F) -> impl Future<Output = F::Output> {
    HELD.scope(current(), step)
}
