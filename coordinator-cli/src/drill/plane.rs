use super::{
    cipher,
    event::{Event, Operation, Refusal},
    failure::Failure,
    key_service::KeyService,
    store::{Admission, Hold, Item, Store},
};
use coordinator_core::{ErasureCoordinator, Mode, Scope, under_lock};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// How long a hold stays at least.
const TERM: Duration = Duration::from_millis(20);

/// The data plane: items sealed under keys of their subjects, legal holds, erasure by destroying a key.
///
/// It takes any coordinator, because the drill has to show what a process-local one does. A real plane beside a
/// shared store takes `impl Into<Distributed>`.
#[derive(Debug)]
pub(crate) struct Plane {
    pub(super) coordinator: Arc<dyn ErasureCoordinator>,
    pub(super) store: Arc<dyn Store>,
    pub(super) keys: Arc<dyn KeyService>,
    run: String,
}

/// What came of an operation, and how long it had waited for its scope.
pub(crate) type Performed = Result<(Event, Duration), Failure>;

impl Plane {
    /// The plane of one instance; `run` sets its scopes apart from those of other drills.
    pub(crate) fn new(
        coordinator: Arc<dyn ErasureCoordinator>,
        store: Arc<dyn Store>,
        keys: Arc<dyn KeyService>,
        run: &str,
    ) -> Self {
        Self { coordinator, store, keys, run: run.into() }
    }

    /// Seals an item and adds it to the store.
    pub(crate) async fn write(&self, subject: i64) -> Performed {
        let (scope, asked) = (self.scope(subject)?, Instant::now());
        under_lock(&*self.coordinator, &scope, Mode::Shared, async |_lease| {
            let waited = asked.elapsed();
            let key = self.store.current_key(subject).await?;
            let Some((data_key, wrapped)) = self.keys.data_key(key).await? else {
                return Ok((refused(Operation::Write, Refusal::KeyGone), waited));
            };
            let id = fresh_id();
            let text = format!("what subject {subject} said in item {id}");
            let sealed = cipher::seal(&data_key, &Item::context(id, key), text.as_bytes())
                .ok_or_else(|| Failure::Unexpected("the cipher refused an item".into()))?;
            let admission = self.store.add_item(Item { id, key, wrapped, sealed }).await?;
            Ok((admitted(admission, Operation::Write, Event::Wrote { item: id, key }), waited))
        })
        .await
    }

    /// Places a hold on the subject's youngest item.
    pub(crate) async fn hold(&self, subject: i64) -> Performed {
        let (scope, asked) = (self.scope(subject)?, Instant::now());
        under_lock(&*self.coordinator, &scope, Mode::Shared, async |_lease| {
            let waited = asked.elapsed();
            let key = self.store.current_key(subject).await?;
            let Some(item) = self.store.latest_item(key).await? else {
                return Ok((refused(Operation::Hold, Refusal::Nothing), waited));
            };
            let hold = Hold { id: fresh_id(), item, key };
            let admission = self.store.add_hold(hold).await?;
            Ok((admitted(admission, Operation::Hold, Event::Held { hold: hold.id, item, key }), waited))
        })
        .await
    }

    /// Lifts the subject's holds whose term has ended, whoever placed them.
    pub(crate) async fn lift(&self, subject: i64) -> Performed {
        let (scope, asked) = (self.scope(subject)?, Instant::now());
        under_lock(&*self.coordinator, &scope, Mode::Shared, async |_lease| {
            let waited = asked.elapsed();
            let key = self.store.current_key(subject).await?;
            let lifted = self.store.lift_holds(key, TERM).await?.len();
            if lifted == 0 {
                return Ok((refused(Operation::Lift, Refusal::Nothing), waited));
            }
            Ok((Event::Lifted { holds: u64::try_from(lifted).unwrap_or(u64::MAX) }, waited))
        })
        .await
    }

    /// The scope of a subject: the unit that is erased.
    pub(super) fn scope(&self, subject: i64) -> Result<Scope, Failure> {
        Ok(Scope::new(format!("{}/subject-{subject}", self.run))?)
    }
}

/// The event of an operation that was not carried out.
pub(super) fn refused(operation: Operation, why: Refusal) -> Event {
    Event::Refused { operation, why }
}

fn admitted(admission: Admission, operation: Operation, committed: Event) -> Event {
    match admission {
        Admission::Committed => committed,
        Admission::Tombstoned => refused(operation, Refusal::Tombstoned),
        Admission::KeyReplaced => refused(operation, Refusal::KeyGone),
        Admission::NoItem => refused(operation, Refusal::Nothing),
    }
}

fn fresh_id() -> i64 {
    rand::random_range(0..=i64::MAX)
}
