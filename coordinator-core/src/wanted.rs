use std::sync::Arc;
use tokio::sync::watch;

/// Whether anyone still wants the lock that a driver waits for.
///
/// Driver futures are never dropped half-way; this is how a wait is told to stop.
#[derive(Clone, Debug)]
pub struct Wanted(Arc<watch::Sender<bool>>);

impl Default for Wanted {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(true)))
    }
}

impl Wanted {
    /// Nobody wants it any more; for ever.
    pub fn end(&self) {
        self.0.send_replace(false);
    }

    /// Whether [`Wanted::end`] was called.
    pub fn has_ended(&self) -> bool {
        !*self.0.borrow()
    }

    /// Resolves when nobody wants it any more.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn ended(&self) {
        let mut wanted = self.0.subscribe();
        while *wanted.borrow_and_update() {
            if wanted.changed().await.is_err() {
                return; // can't be: the sender lives in `self`
            }
        }
    }
}
