use super::{Answer, Turn};
use crate::Mode;
use std::collections::BTreeMap;
use tokio::sync::oneshot::{Receiver, Sender, channel};

/// The callers of one scope that wait, in the order in which they came.
pub(super) struct Waiters<G> {
    /// By ticket: a cancel removes in O(log n), whoever stands before it.
    by_ticket: BTreeMap<u64, Waiter<G>>,
    tries: usize,
}

struct Waiter<G> {
    mode: Mode,
    patience: Patience,
    tell: Sender<Answer<G>>,
}

/// How a caller wants the scope.
pub(super) type Wish = (Mode, Patience);

/// A try waits for what ends by itself (another try, a release, a probe), never for a holder or a waiter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Patience {
    Wait,
    Try,
}

impl<G: Clone> Waiters<G> {
    pub(super) fn new() -> Self {
        Self { by_ticket: BTreeMap::new(), tries: 0 }
    }

    pub(super) fn wishes(&self) -> impl Iterator<Item = Wish> {
        self.by_ticket.values().map(|waiter| (waiter.mode, waiter.patience))
    }

    pub(super) fn head(&self) -> Option<Wish> {
        self.wishes().next()
    }

    pub(super) fn push(&mut self, ticket: u64, (mode, patience): Wish) -> Receiver<Answer<G>> {
        let (tell, told) = channel();
        self.tries += usize::from(patience == Patience::Try);
        self.by_ticket.insert(ticket, Waiter { mode, patience, tell });
        told
    }

    /// The waiter has closed its end, so that dropping ours wakes nobody.
    pub(super) fn remove(&mut self, ticket: u64) {
        if let Some(waiter) = self.by_ticket.remove(&ticket) {
            self.tries -= usize::from(waiter.patience == Patience::Try);
        }
    }

    pub(super) fn settle_head(&mut self, answer: Answer<G>, turn: &mut Turn<'_, G>) {
        if let Some((_, waiter)) = self.by_ticket.pop_first() {
            self.tries -= usize::from(waiter.patience == Patience::Try);
            turn.answers.push((waiter.tell, answer));
        }
    }

    pub(super) fn settle_tries(&mut self, answer: &Answer<G>, turn: &mut Turn<'_, G>) {
        if self.tries > 0 {
            let all = std::mem::take(&mut self.by_ticket).into_iter();
            let (tries, waits) = all.partition(|(_, waiter)| waiter.patience == Patience::Try);
            self.by_ticket = tries;
            self.settle_all(answer, turn);
            self.by_ticket = waits;
        }
    }

    pub(super) fn settle_all(&mut self, answer: &Answer<G>, turn: &mut Turn<'_, G>) {
        self.tries = 0;
        let all = std::mem::take(&mut self.by_ticket).into_values();
        turn.answers.extend(all.map(|waiter| (waiter.tell, answer.clone())));
    }
}
