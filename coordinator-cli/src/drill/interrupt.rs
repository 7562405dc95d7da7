use super::failure::Failure;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Turns SIGINT, SIGTERM and SIGHUP into a cancelled token, so that the drill can clean up.
pub(crate) fn listen() -> Result<CancellationToken, Failure> {
    let failed = |error| Failure::Unexpected(format!("signals can't be waited for: {error}"));
    let token = CancellationToken::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let (mut signals, token) = (signal(kind).map_err(failed)?, token.clone());
        tokio::spawn(async move {
            if signals.recv().await.is_some() {
                token.cancel();
            }
        });
    }
    Ok(token)
}
