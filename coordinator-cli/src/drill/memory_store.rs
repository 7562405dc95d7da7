use super::{
    failure::Failure,
    key_service::KeyName,
    store::{Admission, Decision, Evidence, Hold, Item, Stage, Store, Survey, Tombstone},
};
use async_trait::async_trait;
use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// How long a statement takes; the timer makes a millisecond or two of it, as a near server does.
const STATEMENT: Duration = Duration::from_micros(300);

/// The store of a drill without a server: each statement sees what was committed when it runs.
#[derive(Default)]
pub(crate) struct MemoryStore(Mutex<Rows>);

#[derive(Default)]
struct Rows {
    generations: HashMap<i64, i64>,
    items: HashMap<i64, Item>,
    items_of: HashMap<KeyName, Vec<i64>>,
    holds: HashMap<KeyName, Vec<HeldRow>>,
    tombstones: HashMap<KeyName, TombstoneRow>,
    sequence: i64,
}

struct HeldRow {
    hold: Hold,
    placed: Instant,
    lifted: Option<i64>,
}

struct TombstoneRow {
    tombstone: Tombstone,
    decided: i64,
}

impl MemoryStore {
    /// One statement, or the commit of a transaction: a round trip, then a moment without others.
    async fn statement<T>(&self, work: impl FnOnce(&mut Rows) -> T) -> T {
        tokio::time::sleep(STATEMENT).await;
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Rows {
    fn current_key(&self, subject: i64) -> KeyName {
        KeyName { subject, generation: self.generations.get(&subject).copied().unwrap_or(0) }
    }

    fn admission(&self, key: KeyName) -> Admission {
        if self.tombstones.contains_key(&key) {
            Admission::Tombstoned
        } else if self.current_key(key.subject) == key {
            Admission::Committed
        } else {
            Admission::KeyReplaced
        }
    }

    fn next(&mut self) -> i64 {
        self.sequence += 1;
        self.sequence
    }

    /// The row of this erasure, if it is still as it was found.
    fn unchanged(&mut self, found: &Tombstone) -> Option<&mut TombstoneRow> {
        let row = self.tombstones.get_mut(&found.key)?;
        (row.tombstone.stage == Stage::Decided && row.tombstone.token == found.token).then_some(row)
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn current_key(&self, subject: i64) -> Result<KeyName, Failure> {
        Ok(self.statement(|rows| rows.current_key(subject)).await)
    }

    async fn open_tombstone(&self, key: KeyName) -> Result<Option<Tombstone>, Failure> {
        let open = |row: &&TombstoneRow| row.tombstone.stage != Stage::Done;
        Ok(self.statement(|rows| rows.tombstones.get(&key).filter(open).map(|row| row.tombstone.clone())).await)
    }

    async fn tombstoned_subjects(&self) -> Result<Vec<i64>, Failure> {
        let open = |row: &&TombstoneRow| row.tombstone.stage != Stage::Done;
        let subjects = |rows: &mut Rows| {
            rows.tombstones.values().filter(open).map(|row| row.tombstone.key.subject).collect::<Vec<_>>()
        };
        Ok(self.statement(subjects).await)
    }

    async fn add_item(&self, item: Item) -> Result<Admission, Failure> {
        let admission = self.statement(|rows| rows.admission(item.key)).await;
        if admission == Admission::Committed {
            self.statement(|_| ()).await; // the insert, which nobody sees before the commit
            self.statement(|rows| {
                rows.items_of.entry(item.key).or_default().push(item.id);
                rows.items.insert(item.id, item);
            })
            .await;
        }
        Ok(admission)
    }

    async fn latest_item(&self, key: KeyName) -> Result<Option<i64>, Failure> {
        Ok(self.statement(|rows| rows.items_of.get(&key).and_then(|items| items.last().copied())).await)
    }

    async fn add_hold(&self, hold: Hold) -> Result<Admission, Failure> {
        let admission = self
            .statement(|rows| match rows.admission(hold.key) {
                Admission::Committed if !rows.items.contains_key(&hold.item) => Admission::NoItem,
                admission => admission,
            })
            .await;
        if admission == Admission::Committed {
            self.statement(|_| ()).await; // the insert, which nobody sees before the commit
            self.statement(|rows| {
                let row = HeldRow { hold, placed: Instant::now(), lifted: None };
                rows.holds.entry(hold.key).or_default().push(row);
            })
            .await;
        }
        Ok(admission)
    }

    async fn lift_holds(&self, key: KeyName, term: Duration) -> Result<Vec<i64>, Failure> {
        let lift = |rows: &mut Rows| {
            let now = rows.next();
            let due = |row: &&mut HeldRow| row.lifted.is_none() && row.placed.elapsed() >= term;
            let held = rows.holds.get_mut(&key).into_iter().flatten();
            held.filter(due).map(|row| (row.lifted = Some(now), row.hold.id).1).collect::<Vec<_>>()
        };
        Ok(self.statement(lift).await)
    }

    async fn survey(&self, key: KeyName) -> Result<Survey, Failure> {
        let items = self.statement(|rows| rows.items_of.get(&key).cloned().unwrap_or_default()).await;
        let held = self
            .statement(|rows| rows.holds.get(&key).is_some_and(|held| held.iter().any(|row| row.lifted.is_none())))
            .await;
        Ok(Survey { items, held })
    }

    async fn add_tombstone(&self, tombstone: &Tombstone) -> Result<bool, Failure> {
        self.statement(|_| ()).await; // the insert, which nobody sees before the commit
        let commit = |rows: &mut Rows| {
            if rows.tombstones.contains_key(&tombstone.key) {
                return false;
            }
            let row = TombstoneRow { tombstone: tombstone.clone(), decided: rows.next() };
            rows.tombstones.insert(tombstone.key, row);
            true
        };
        Ok(self.statement(commit).await)
    }

    async fn take_over(&self, found: &Tombstone, anew: &Tombstone) -> Result<bool, Failure> {
        let take_over = |rows: &mut Rows| {
            let decided = rows.next();
            rows.unchanged(found).map(|row| *row = TombstoneRow { tombstone: anew.clone(), decided }).is_some()
        };
        Ok(self.statement(take_over).await)
    }

    async fn withdraw(&self, found: &Tombstone) -> Result<bool, Failure> {
        let withdraw =
            |rows: &mut Rows| rows.unchanged(found).is_some() && rows.tombstones.remove(&found.key).is_some();
        Ok(self.statement(withdraw).await)
    }

    async fn begin_destroying(&self, tombstone: &Tombstone) -> Result<bool, Failure> {
        let begin =
            |rows: &mut Rows| rows.unchanged(tombstone).map(|row| row.tombstone.stage = Stage::Destroying).is_some();
        Ok(self.statement(begin).await)
    }

    async fn finish(&self, key: KeyName) -> Result<bool, Failure> {
        self.statement(|_| ()).await; // the updates, which nobody sees before the commit
        let commit = |rows: &mut Rows| match rows.tombstones.get_mut(&key) {
            Some(row) if row.tombstone.stage == Stage::Destroying => {
                row.tombstone.stage = Stage::Done;
                rows.generations.insert(key.subject, key.generation + 1);
                true
            }
            Some(_) | None => false,
        };
        Ok(self.statement(commit).await)
    }

    async fn evidence(&self) -> Result<Evidence, Failure> {
        let evidence = |rows: &mut Rows| Evidence {
            items: rows.items.clone(),
            holds: rows.holds.values().flatten().map(|row| (row.hold.id, row.lifted)).collect(),
            erasures: rows
                .tombstones
                .iter()
                .map(|(key, TombstoneRow { tombstone, decided })| {
                    (*key, Decision { decided: *decided, seen: tombstone.seen.iter().copied().collect() })
                })
                .collect(),
        };
        Ok(self.statement(evidence).await)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}
