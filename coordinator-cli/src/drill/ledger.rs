use super::{
    event::{Event, Operation, Refusal, Told},
    key_service::KeyName,
};
use std::collections::{BTreeMap, HashMap};

/// How many operations of each kind make a phase real work.
pub(crate) const REAL_WORK: u64 = 100;

/// What the instances told: the acknowledgements that bind them, and counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    /// Acknowledged items, with their key.
    pub(crate) items: HashMap<i64, KeyName>,
    /// Acknowledged holds, with the key of their item.
    pub(crate) holds: HashMap<i64, KeyName>,
    /// Acknowledged operations by kind.
    pub(crate) done: BTreeMap<Operation, u64>,
    /// Refused operations by kind and reason.
    pub(crate) refused: BTreeMap<(Operation, Refusal), u64>,
    /// Failed operations by message.
    pub(crate) failed: BTreeMap<String, u64>,
    waits: Vec<u64>,
}

impl Ledger {
    /// Takes down what an instance told.
    pub(crate) fn enter(&mut self, told: Told) {
        self.waits.extend(told.waited_micros);
        let operation = match told.event {
            Event::Wrote { item, key } => {
                self.items.insert(item, key);
                Operation::Write
            }
            Event::Held { hold, item: _, key } => {
                self.holds.insert(hold, key);
                Operation::Hold
            }
            Event::Lifted { .. } => Operation::Lift,
            Event::Erased { .. } => Operation::Erase,
            Event::Resumed { .. } => Operation::Resume,
            Event::Refused { operation, why } => {
                *self.refused.entry((operation, why)).or_default() += 1;
                return;
            }
            Event::Failed { operation, message } => {
                *self.failed.entry(format!("{operation}: {message}")).or_default() += 1;
                return;
            }
        };
        *self.done.entry(operation).or_default() += 1;
    }

    /// How many operations of this kind were acknowledged.
    pub(crate) fn done(&self, operation: Operation) -> u64 {
        self.done.get(&operation).copied().unwrap_or(0)
    }

    /// How many operations were acknowledged.
    pub(crate) fn operations(&self) -> u64 {
        self.done.values().sum()
    }

    /// The kind of operation of which there are too few to prove anything.
    pub(crate) fn too_few(&self) -> Option<Operation> {
        [Operation::Write, Operation::Hold, Operation::Erase].into_iter().find(|kind| self.done(*kind) < REAL_WORK)
    }

    /// How many microseconds that share of the operations, in percent, had waited for their scope at most.
    pub(crate) fn waited_micros(&self, percent: usize) -> u64 {
        let mut waits = self.waits.clone();
        if waits.is_empty() {
            return 0;
        }
        let at = (waits.len() * percent / 100).min(waits.len() - 1);
        *waits.select_nth_unstable(at).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_done_counts_as_done() {
        let mut ledger = Ledger::default();
        let key = KeyName { subject: 1, generation: 0 };
        for event in [
            Event::Wrote { item: 1, key },
            Event::Refused { operation: Operation::Write, why: Refusal::Tombstoned },
            Event::Failed { operation: Operation::Write, message: "the store is away".into() },
        ] {
            ledger.enter(Told { event, waited_micros: Some(3) });
        }
        assert_eq!((ledger.operations(), ledger.done(Operation::Write)), (1, 1));
        assert_eq!(ledger.items.len(), 1);
        assert_eq!(ledger.failed["write: the store is away"], 1);
    }

    #[test]
    fn waits_are_ranked() {
        let mut ledger = Ledger::default();
        assert_eq!(ledger.waited_micros(99), 0);
        ledger.waits = (0..100).rev().collect();
        assert_eq!((ledger.waited_micros(50), ledger.waited_micros(99)), (50, 99));
    }
}
