//! Erasure in the shape that outlives the death of its instance at any point.
//!
//! 1. Under the exclusive lock: read the items and the holds, ask the key service for the key's state.
//! 2. Commit a tombstone that names the items: from here on writes and holds are refused.
//! 3. Only when that is confirmed, mark it as *destroying*: an update that matches only a tombstone that is still ours.
//! 4. Only when *that* is confirmed, ask for the destroy, by a step that owns the lease.
//! 5. Close the tombstone and give the subject its next key.
//!
//! The statement of an instance that was killed may still land, after its lock was freed and others have worked. A
//! late tombstone is found at stage *decided*: nothing was asked of the key service, so who resumes it looks at items
//! and holds again and decides anew. A late mark finds a tombstone with another token, or none, and does nothing.
//! At stage *destroying* the destroy may be on its way: it is asked again, which is harmless, and closed.

use super::{
    event::{Event, Operation, Refusal},
    failure::Failure,
    plane::{Performed, Plane, refused},
    store::{Stage, Tombstone},
};
use coordinator_core::{Lease, Mode, under_lock};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// How long the lease is to be guaranteed when the destroy is asked: many times what it takes.
const MIN_REMAINING: Duration = Duration::from_secs(1);

impl Plane {
    /// Erases the subject, unless one of its items is under a hold.
    pub(crate) async fn erase(&self, subject: i64) -> Performed {
        let (scope, asked) = (self.scope(subject)?, Instant::now());
        under_lock(&*self.coordinator, &scope, Mode::Exclusive, async |lease| {
            let waited = asked.elapsed();
            let no = |why| Ok((refused(Operation::Erase, why), waited));
            let key = self.store.current_key(subject).await?;
            if self.store.open_tombstone(key).await?.is_some() {
                return no(Refusal::Tombstoned);
            }
            let survey = self.store.survey(key).await?;
            if survey.held {
                return no(Refusal::Held);
            }
            if survey.items.is_empty() {
                return no(Refusal::Nothing);
            }
            if !self.keys.is_usable(key).await? {
                return no(Refusal::KeyGone);
            }
            let token = lease.fence().await?.get().cast_signed();
            let tombstone = Tombstone { key, token, seen: survey.items, stage: Stage::Decided };
            if !self.store.add_tombstone(&tombstone).await? {
                return no(Refusal::Tombstoned);
            }
            if !self.carry_out(lease, &tombstone).await? {
                return no(Refusal::TakenOver);
            }
            Ok((Event::Erased { key }, waited))
        })
        .await
    }

    /// Ends the erasure of the subject that another instance has left, if there is one.
    pub(crate) async fn resume(&self, subject: i64) -> Performed {
        let (scope, asked) = (self.scope(subject)?, Instant::now());
        under_lock(&*self.coordinator, &scope, Mode::Exclusive, async |lease| {
            let waited = asked.elapsed();
            let no = |why| Ok((refused(Operation::Resume, why), waited));
            let key = self.store.current_key(subject).await?;
            let Some(mut tombstone) = self.store.open_tombstone(key).await? else {
                return no(Refusal::Nothing);
            };
            if tombstone.stage == Stage::Decided {
                let survey = self.store.survey(key).await?;
                if survey.held {
                    self.store.withdraw(&tombstone).await?;
                    return no(Refusal::Held);
                }
                let token = lease.fence().await?.get().cast_signed();
                let anew = Tombstone { key, token, seen: survey.items, stage: Stage::Decided };
                if !self.store.take_over(&tombstone, &anew).await? {
                    return no(Refusal::TakenOver);
                }
                tombstone = anew;
            }
            if !self.carry_out(lease, &tombstone).await? {
                return no(Refusal::TakenOver);
            }
            Ok((Event::Resumed { key }, waited))
        })
        .await
    }

    /// Steps 3 to 5; `false` if another instance has carried them out.
    async fn carry_out(&self, lease: &Lease, tombstone: &Tombstone) -> Result<bool, Failure> {
        if tombstone.stage == Stage::Decided && !self.store.begin_destroying(tombstone).await? {
            return Ok(false);
        }
        let (keys, key) = (Arc::clone(&self.keys), tombstone.key);
        lease.irreversible(MIN_REMAINING, async move { keys.destroy(key).await }).await??;
        self.store.finish(key).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drill::{
        key_service::{KeyName, KeyRequest, KeyService as _},
        memory_store::MemoryStore,
        store::Store as _,
        vault::Vault,
    };
    use coordinator_local::LocalCoordinator;

    const SUBJECT: i64 = 3;
    const KEY: KeyName = KeyName { subject: SUBJECT, generation: 0 };
    const NEXT: KeyName = KeyName { subject: SUBJECT, generation: 1 };

    struct Case {
        plane: Plane,
        store: Arc<MemoryStore>,
        vault: Vault,
    }

    impl Case {
        /// A subject with one item.
        async fn new() -> (Self, i64) {
            let (vault, store) = (Vault::new(), Arc::new(MemoryStore::default()));
            let coordinator = Arc::new(LocalCoordinator::new());
            let plane = Plane::new(coordinator, Arc::clone(&store) as _, Arc::new(vault.clone()), "test");
            let case = Self { plane, store, vault };
            let item = case.write().await.expect("written");
            (case, item)
        }

        async fn write(&self) -> Result<i64, Event> {
            match self.plane.write(SUBJECT).await.expect("no failure").0 {
                Event::Wrote { item, .. } => Ok(item),
                other => Err(other),
            }
        }

        /// What an instance leaves that dies after its tombstone, or what lands of it after its death.
        async fn leave(&self, seen: Vec<i64>) -> Tombstone {
            let tombstone = Tombstone { key: KEY, token: -1, seen, stage: Stage::Decided };
            assert!(self.store.add_tombstone(&tombstone).await.expect("no failure"));
            tombstone
        }

        async fn resume(&self) -> Event {
            self.plane.resume(SUBJECT).await.expect("no failure").0
        }

        async fn assert_erased(&self, seen: &[i64]) {
            assert!(self.vault.is_destroyed(KEY));
            assert_eq!(self.store.current_key(SUBJECT).await.expect("no failure"), NEXT);
            assert!(self.store.open_tombstone(KEY).await.expect("no failure").is_none());
            let evidence = self.store.evidence().await.expect("no failure");
            assert_eq!(evidence.erasures[&KEY].seen, seen.iter().copied().collect());
            self.write().await.expect("the subject goes on with its next key");
        }
    }

    #[tokio::test]
    async fn an_erasure_ends_the_key_and_the_subject_goes_on_with_the_next() {
        let (case, item) = Case::new().await;
        let (event, _) = case.plane.erase(SUBJECT).await.expect("no failure");
        assert!(matches!(event, Event::Erased { key: KEY }), "{event:?}");
        case.assert_erased(&[item]).await;
    }

    #[tokio::test]
    async fn a_held_item_is_not_erased_until_its_hold_is_lifted() {
        let (case, item) = Case::new().await;
        case.plane.hold(SUBJECT).await.expect("no failure");
        let (event, _) = case.plane.erase(SUBJECT).await.expect("no failure");
        assert!(matches!(event, Event::Refused { why: Refusal::Held, .. }), "{event:?}");
        tokio::time::sleep(Duration::from_millis(30)).await; // the hold's term
        case.plane.lift(SUBJECT).await.expect("no failure");
        case.plane.erase(SUBJECT).await.expect("no failure");
        case.assert_erased(&[item]).await;
    }

    #[tokio::test]
    async fn a_tombstone_refuses_writes_and_holds_until_it_is_resumed() {
        let (case, item) = Case::new().await;
        case.leave(vec![item]).await;
        let refused = case.write().await.expect_err("refused");
        assert!(matches!(refused, Event::Refused { why: Refusal::Tombstoned, .. }), "{refused:?}");
        let (refused, _) = case.plane.hold(SUBJECT).await.expect("no failure");
        assert!(matches!(refused, Event::Refused { why: Refusal::Tombstoned, .. }), "{refused:?}");
        assert!(matches!(case.resume().await, Event::Resumed { key: KEY }));
        case.assert_erased(&[item]).await;
    }

    #[tokio::test]
    async fn who_resumes_a_late_tombstone_sees_what_came_before_it() {
        let (case, item) = Case::new().await;
        let late = case.write().await.expect("written");
        case.leave(vec![item]).await;
        assert!(matches!(case.resume().await, Event::Resumed { key: KEY }));
        case.assert_erased(&[item, late]).await;
    }

    #[tokio::test]
    async fn a_late_tombstone_yields_to_a_hold_that_came_before_it() {
        let (case, item) = Case::new().await;
        case.plane.hold(SUBJECT).await.expect("no failure");
        let tombstone = case.leave(vec![item]).await;
        let event = case.resume().await;
        assert!(matches!(event, Event::Refused { why: Refusal::Held, .. }), "{event:?}");
        assert!(!case.vault.is_destroyed(KEY));
        case.write().await.expect("the tombstone is gone");
        assert!(!case.store.begin_destroying(&tombstone).await.expect("no failure"), "its late mark finds nothing");
    }

    #[tokio::test]
    async fn a_late_mark_of_an_erasure_that_was_taken_over_does_nothing() {
        let (case, item) = Case::new().await;
        let tombstone = case.leave(vec![item]).await;
        let anew = Tombstone { token: 1, ..tombstone.clone() };
        assert!(case.store.take_over(&tombstone, &anew).await.expect("no failure"));
        assert!(!case.store.begin_destroying(&tombstone).await.expect("no failure"));
        assert!(case.store.begin_destroying(&anew).await.expect("no failure"));
        assert!(!case.store.withdraw(&anew).await.expect("no failure"), "there is no way back");
    }

    #[tokio::test]
    async fn an_erasure_that_died_around_its_destroy_is_finished() {
        for destroyed in [false, true] {
            let (case, item) = Case::new().await;
            let tombstone = case.leave(vec![item]).await;
            assert!(case.store.begin_destroying(&tombstone).await.expect("no failure"));
            if destroyed {
                case.vault.ask(KeyRequest::Destroy(KEY)).await.expect("no failure");
            }
            assert!(matches!(case.resume().await, Event::Resumed { key: KEY }));
            case.assert_erased(&[item]).await;
            let again = case.resume().await;
            assert!(matches!(again, Event::Refused { why: Refusal::Nothing, .. }), "{again:?}");
        }
    }
}
