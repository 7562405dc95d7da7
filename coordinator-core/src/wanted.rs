use tokio_util::sync::CancellationToken;

/// Whether anyone still wants the lock that a driver waits for.
///
/// Driver futures are never dropped half-way; this is how a wait is told to stop.
#[derive(Clone, Debug, Default)]
pub struct Wanted(CancellationToken);

impl Wanted {
    /// Nobody wants it any more; for ever.
    pub fn end(&self) {
        self.0.cancel();
    }

    /// Whether [`Wanted::end`] was called.
    pub fn has_ended(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Resolves when nobody wants it any more.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn ended(&self) {
        self.0.cancelled().await;
    }
}
