use super::{
    cipher,
    key_service::{KeyReply, KeyRequest},
    ledger::Ledger,
    store::{Evidence, Item},
    vault::Vault,
};

/// What an audit found wrong; both counts are zero when the lock does its work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Violations {
    /// Acknowledged items that can't be read any more, and that no erasure had seen.
    ///
    /// Exactly: the write was acknowledged, the committed tombstone of the item's key does not name the item (or
    /// there is none), and the key service can't unwrap its data key, or that does not open the item.
    pub(crate) lost_items: u64,
    /// Acknowledged holds whose item was destroyed all the same.
    ///
    /// Exactly: the hold was acknowledged, the key of its item is destroyed, and the hold had not been lifted before
    /// the erasure was decided, in the order of the store's sequence (or there is no tombstone at all).
    pub(crate) broken_holds: u64,
}

impl Violations {
    /// Holds what was acknowledged against what store and key service have, once all work has ended.
    ///
    /// What was not acknowledged proves nothing: its instance may have been killed before or after the commit.
    pub(crate) fn count(ledger: &Ledger, evidence: &Evidence, vault: &Vault) -> Self {
        let lost = |&(id, key): &(&i64, &_)| {
            let seen = evidence.erasures.get(key).is_some_and(|erasure| erasure.seen.contains(id));
            !seen && !evidence.items.get(id).is_some_and(|item| is_readable(item, vault))
        };
        let broken = |&(id, key): &(&i64, &_)| {
            let lifted = evidence.holds.get(id).copied().flatten();
            let decided = evidence.erasures.get(key).map(|erasure| erasure.decided);
            let lifted_before = lifted.zip(decided).is_some_and(|(lifted, decided)| lifted < decided);
            vault.is_destroyed(*key) && !lifted_before
        };
        Self {
            lost_items: ledger.items.iter().filter(lost).count() as u64,
            broken_holds: ledger.holds.iter().filter(broken).count() as u64,
        }
    }

    /// Both kinds.
    pub(crate) fn total(&self) -> u64 {
        self.lost_items + self.broken_holds
    }
}

fn is_readable(item: &Item, vault: &Vault) -> bool {
    match vault.answer(&KeyRequest::Unwrap(item.key, item.wrapped.clone())) {
        KeyReply::Unwrapped(data_key) => {
            cipher::open(&data_key, &Item::context(item.id, item.key), &item.sealed).is_some()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drill::{key_service::KeyName, store::Decision};

    const KEY: KeyName = KeyName { subject: 7, generation: 3 };
    const OTHER: KeyName = KeyName { subject: 7, generation: 4 };

    struct History {
        ledger: Ledger,
        evidence: Evidence,
        vault: Vault,
    }

    impl History {
        fn new() -> Self {
            Self { ledger: Ledger::default(), evidence: Evidence::default(), vault: Vault::new() }
        }

        fn stored(mut self, id: i64, key: KeyName) -> Self {
            let KeyReply::DataKey(data_key, wrapped) = self.vault.answer(&KeyRequest::DataKey(key)) else {
                panic!("the key is destroyed already");
            };
            let sealed = cipher::seal(&data_key, &Item::context(id, key), b"text").expect("sealed");
            self.evidence.items.insert(id, Item { id, key, wrapped, sealed });
            self
        }

        fn written(self, id: i64, key: KeyName) -> Self {
            let mut history = self.stored(id, key);
            history.ledger.items.insert(id, key);
            history
        }

        fn held(mut self, id: i64, key: KeyName, lifted: Option<i64>) -> Self {
            self.ledger.holds.insert(id, key);
            self.evidence.holds.insert(id, lifted);
            self
        }

        fn decided(mut self, key: KeyName, at: i64, seen: &[i64]) -> Self {
            let seen = seen.iter().copied().collect();
            self.evidence.erasures.insert(key, Decision { decided: at, seen });
            self
        }

        fn destroyed(self, key: KeyName) -> Self {
            self.vault.answer(&KeyRequest::Destroy(key));
            self
        }

        fn violations(&self) -> (u64, u64) {
            let found = Violations::count(&self.ledger, &self.evidence, &self.vault);
            assert_eq!(found.total(), found.lost_items + found.broken_holds);
            (found.lost_items, found.broken_holds)
        }
    }

    #[tokio::test]
    async fn a_right_history_has_no_violation() {
        let history = History::new()
            .written(1, KEY)
            .written(2, KEY)
            .held(10, KEY, Some(4))
            .decided(KEY, 5, &[1, 2])
            .destroyed(KEY)
            .written(3, OTHER)
            .held(11, OTHER, None);
        assert_eq!(history.violations(), (0, 0));
    }

    #[tokio::test]
    async fn an_item_that_the_erasure_did_not_see_is_lost() {
        let history = History::new().written(1, KEY).written(2, KEY).decided(KEY, 5, &[1]);
        assert_eq!(history.violations(), (0, 0), "nothing is destroyed yet");
        assert_eq!(history.destroyed(KEY).violations(), (1, 0));
    }

    #[tokio::test]
    async fn an_item_that_was_not_acknowledged_proves_nothing() {
        assert_eq!(History::new().stored(1, KEY).decided(KEY, 5, &[]).destroyed(KEY).violations(), (0, 0));
    }

    #[tokio::test]
    async fn a_key_that_was_destroyed_without_a_tombstone_loses_its_items_and_breaks_its_holds() {
        let history = History::new().written(1, KEY).held(10, KEY, Some(2)).destroyed(KEY);
        assert_eq!(history.violations(), (1, 1));
    }

    #[tokio::test]
    async fn an_acknowledged_item_that_is_not_in_the_store_is_lost() {
        let mut history = History::new().written(1, KEY);
        history.evidence.items.clear();
        assert_eq!(history.violations(), (1, 0));
    }

    #[tokio::test]
    async fn an_item_that_does_not_open_is_lost_although_its_key_exists() {
        let mut history = History::new().written(1, KEY);
        if let Some(last) = history.evidence.items.get_mut(&1).and_then(|item| item.sealed.last_mut()) {
            *last ^= 1;
        }
        assert_eq!(history.violations(), (1, 0));
    }

    #[tokio::test]
    async fn a_hold_that_was_not_lifted_before_the_decision_is_broken() {
        let history = |lifted| History::new().written(1, KEY).held(10, KEY, lifted).decided(KEY, 5, &[1]);
        for (lifted, broken) in [(None, 1), (Some(6), 1), (Some(4), 0)] {
            assert_eq!(history(lifted).violations(), (0, 0), "nothing is destroyed yet");
            assert_eq!(history(lifted).destroyed(KEY).violations(), (0, broken), "lifted {lifted:?}");
        }
    }
}
