use super::{audit::Violations, event::Told, ledger::Ledger};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    time::{Duration, Instant},
};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

/// Which lock the instances work under; nothing else differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Lock {
    /// Each instance has a lock of its own.
    Unprotected,
    /// All instances share one coordinator.
    Protected,
}

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unprotected => "unprotected",
            Self::Protected => "protected",
        })
    }
}

/// What came of a phase.
#[derive(Debug)]
pub(crate) struct Phase {
    pub(crate) ledger: Ledger,
    pub(crate) violations: Violations,
    pub(crate) lasted: Duration,
    pub(crate) killed: u64,
}

/// How many times as long as asked a protected phase lasts at most.
const LONGEST: u32 = 4;

/// Takes down what the instances tell, for a phase's length and then until they have stopped.
///
/// On a machine that is busy or slow a protected phase lasts longer, until it has done real work.
pub(crate) async fn collect(
    mut events: UnboundedReceiver<Told>,
    length: Duration,
    lock: Lock,
    stop: &CancellationToken,
    progress: &ProgressBar,
) -> (Ledger, Duration) {
    let longest = if lock == Lock::Protected { length * LONGEST } else { length };
    let (mut ledger, begin) = (Ledger::default(), Instant::now());
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    loop {
        tokio::select! {
            told = events.recv() => match told {
                Some(told) => ledger.enter(told),
                None => break,
            },
            _ = ticks.tick() => {
                let elapsed = begin.elapsed();
                if elapsed >= length && (elapsed >= longest || ledger.too_few().is_none()) {
                    stop.cancel();
                }
                progress.set_position(u64::try_from(elapsed.min(length).as_millis()).unwrap_or(u64::MAX));
                progress.set_message(format!("{} operations", ledger.operations()));
            }
        }
    }
    (ledger, begin.elapsed())
}
