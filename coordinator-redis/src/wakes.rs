//! What the server pushes: that a waiter may have got its scope, and whose holders are to give up.

use crate::keys::Keyspace;
use coordinator_core::Scope;
use redis::{PushInfo, PushKind, Value};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedSender;

/// Who of this instance waits for a push; a scope has one waiter at most.
#[derive(Debug)]
pub(crate) struct Wakes {
    waiters: Mutex<HashMap<Scope, Arc<Notify>>>,
    revoked: UnboundedSender<Scope>,
    revocations: String,
}

impl Wakes {
    pub(crate) fn new(keys: &Keyspace, revoked: UnboundedSender<Scope>) -> Self {
        Self { waiters: Mutex::default(), revoked, revocations: keys.revocations() }
    }

    /// A waiter, until it is dropped; to be made before the server is asked.
    pub(crate) fn waiter(self: &Arc<Self>, scope: Scope) -> Waiter {
        let woken = Arc::new(Notify::new());
        self.waiters().insert(scope, Arc::clone(&woken));
        Waiter { wakes: Arc::clone(self), scope, woken }
    }

    /// All of them: pushes may have been lost.
    pub(crate) fn wake_all(&self) {
        self.waiters().values().for_each(|woken| woken.notify_one());
    }

    pub(crate) fn hear(&self, push: &PushInfo) {
        let (PushKind::Message, [Value::BulkString(channel), Value::BulkString(payload)]) =
            (&push.kind, &push.data[..])
        else {
            return;
        };
        let Some(scope) = read(payload) else { return };
        if channel == self.revocations.as_bytes() {
            let _ = self.revoked.send(scope); // nobody hears it once the coordinator is gone
        } else if let Some(woken) = self.waiters().get(&scope) {
            woken.notify_one();
        }
    }

    fn waiters(&self) -> MutexGuard<'_, HashMap<Scope, Arc<Notify>>> {
        self.waiters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `None` for what no instance wrote: any client may publish.
fn read(payload: &[u8]) -> Option<Scope> {
    let mut digest = [0; 32];
    hex::decode_to_slice(payload, &mut digest).ok()?;
    Some(Scope::from_digest(digest))
}

pub(crate) struct Waiter {
    wakes: Arc<Wakes>,
    scope: Scope,
    woken: Arc<Notify>,
}

impl Waiter {
    /// At once if there was a push since the last time.
    pub(crate) async fn woken(&self) {
        self.woken.notified().await;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut waiters = self.wakes.waiters();
        // A later waiter of the scope may have taken the place.
        if waiters.get(&self.scope).is_some_and(|woken| Arc::ptr_eq(woken, &self.woken)) {
            waiters.remove(&self.scope);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_read_as_it_was_written_and_nothing_else_is() {
        let scope = Scope::new("subject-42").expect("valid");
        let written = hex::encode(scope.digest());
        assert_eq!(read(written.as_bytes()), Some(scope));
        for other in ["", "42", &"g".repeat(64), &"é".repeat(32), &written[1..], &format!("{written}0")] {
            assert_eq!(read(other.as_bytes()), None, "{other}");
        }
    }
}
