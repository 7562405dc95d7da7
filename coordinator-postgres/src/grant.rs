use crate::holding::Holding;
use crate::keys::Keys;
use coordinator_core::{Mode, Session};
use std::fmt;
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// A scope's key, held on a session.
#[derive(Clone)]
pub struct Grant {
    pub(crate) holding: Holding,
    pub(crate) keys: Keys,
    pub(crate) mode: Mode,
    /// While a waiting session is the lease's, it serves nobody else.
    _permit: Option<Arc<OwnedSemaphorePermit>>,
}

impl Grant {
    pub(crate) fn new(holding: Holding, keys: Keys, mode: Mode, permit: Option<OwnedSemaphorePermit>) -> Self {
        Self { holding, keys, mode, _permit: permit.map(Arc::new) }
    }
}

impl fmt::Debug for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl coordinator_core::Grant for Grant {
    fn session(&self) -> &Session {
        self.holding.session()
    }
}
