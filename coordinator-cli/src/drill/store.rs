use super::{failure::Failure, key_service::KeyName};
use async_trait::async_trait;
use std::{
    collections::{HashMap, HashSet},
    fmt,
    time::Duration,
};

/// A sealed item; its data key is wrapped under a key of its subject.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) id: i64,
    pub(crate) key: KeyName,
    pub(crate) wrapped: Vec<u8>,
    pub(crate) sealed: Vec<u8>,
}

impl Item {
    /// What the sealed text is bound to.
    pub(crate) fn context(id: i64, key: KeyName) -> String {
        format!("{key}/{id}")
    }
}

/// A legal hold: its item must not be destroyed until the hold is lifted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) id: i64,
    pub(crate) item: i64,
    pub(crate) key: KeyName,
}

/// How far an erasure got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// It is decided; nothing was asked of the key service yet.
    Decided,
    /// The destroy may have been asked: there is no way back.
    Destroying,
    /// The key is destroyed, and the subject goes on with its next one.
    Done,
}

/// An erasure, written down before it destroys anything, so that it can be resumed.
#[derive(Clone, Debug)]
pub(crate) struct Tombstone {
    pub(crate) key: KeyName,
    /// The fencing token of who carries it out.
    pub(crate) token: i64,
    /// The items that it saw.
    pub(crate) seen: Vec<i64>,
    pub(crate) stage: Stage,
}

/// What an erasure has to know of a subject.
#[derive(Clone, Debug)]
pub(crate) struct Survey {
    /// All items under the subject's key.
    pub(crate) items: Vec<i64>,
    /// Whether one of them is under a hold.
    pub(crate) held: bool,
}

/// What the transaction of a write or a hold found when it looked again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// It is committed.
    Committed,
    /// The subject is being erased.
    Tombstoned,
    /// The subject has another key by now.
    KeyReplaced,
    /// The item does not exist any more.
    NoItem,
}

/// Everything that an audit reads of a store, after all work has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) items: HashMap<i64, Item>,
    /// When each hold was lifted, in the store's order.
    pub(crate) holds: HashMap<i64, Option<i64>>,
    pub(crate) erasures: HashMap<KeyName, Decision>,
}

/// What an erasure was decided on.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    /// When, in the store's order.
    pub(crate) decided: i64,
    /// The items that it saw.
    pub(crate) seen: HashSet<i64>,
}

/// The store that all instances share: items, holds and tombstones.
///
/// Transactions are at READ COMMITTED.
///
/// Each method is one statement or one transaction. What lies between two calls is what the lock is for.
#[async_trait]
pub(crate) trait Store: Send + Sync + fmt::Debug {
    /// The key that the subject's next item is sealed under.
    async fn current_key(&self, subject: i64) -> Result<KeyName, Failure>;

    /// The erasure of this key, if one is decided and not done.
    async fn open_tombstone(&self, key: KeyName) -> Result<Option<Tombstone>, Failure>;

    /// The subjects that have one.
    async fn tombstoned_subjects(&self) -> Result<Vec<i64>, Failure>;

    /// Looks for a tombstone and at the key in use, and adds the item, in one transaction.
    async fn add_item(&self, item: Item) -> Result<Admission, Failure>;

    /// The youngest item under this key.
    async fn latest_item(&self, key: KeyName) -> Result<Option<i64>, Failure>;

    /// Looks for a tombstone and for the item, and adds the hold, in one transaction.
    async fn add_hold(&self, hold: Hold) -> Result<Admission, Failure>;

    /// Lifts the holds under this key that are older than `term`; says which.
    async fn lift_holds(&self, key: KeyName, term: Duration) -> Result<Vec<i64>, Failure>;

    /// The items under this key, then the holds on them.
    async fn survey(&self, key: KeyName) -> Result<Survey, Failure>;

    /// Commits a decided erasure; `false` if the key has had one.
    async fn add_tombstone(&self, tombstone: &Tombstone) -> Result<bool, Failure>;

    /// Decides an erasure anew that nobody has begun to carry out; `false` if it has changed.
    async fn take_over(&self, found: &Tombstone, anew: &Tombstone) -> Result<bool, Failure>;

    /// Takes back an erasure that nobody has begun to carry out; `false` if it has changed.
    async fn withdraw(&self, found: &Tombstone) -> Result<bool, Failure>;

    /// From here on the destroy may be asked; `false` if the erasure has changed.
    async fn begin_destroying(&self, tombstone: &Tombstone) -> Result<bool, Failure>;

    /// Closes the erasure and gives the subject its next key; `false` if that was done already.
    async fn finish(&self, key: KeyName) -> Result<bool, Failure>;

    /// Everything.
    async fn evidence(&self) -> Result<Evidence, Failure>;
}
