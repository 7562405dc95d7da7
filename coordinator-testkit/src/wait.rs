//! Waiting for a promise, with a deadline.

use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(2);

/// Longer than anything takes that has no bound of its own; who waits for it has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What `future` gives; a failure that says what was waited for when `limit` passes first.
///
/// # Panics
/// When it is not there in time.
#[track_caller]
pub fn within<F: Future>(limit: Duration, what: &str, future: F) -> impl Future<Output = F::Output> {
    let at = std::panic::Location::caller();
    async move {
        let output = tokio::time::timeout(limit, future).await;
        output.unwrap_or_else(|_| panic!("{at}: not within {limit:?}: {what}"))
    }
}

/// Asks until it is so; answers how long that took.
///
/// # Panics
/// When it is not so in time.
#[track_caller]
pub fn until(limit: Duration, what: &str, mut is_so: impl AsyncFnMut() -> bool) -> impl Future<Output = Duration> {
    let at = std::panic::Location::caller();
    async move {
        let begin = Instant::now();
        while !is_so().await {
            assert!(begin.elapsed() < limit, "{at}: not within {limit:?}: {what}");
            tokio::time::sleep(PAUSE).await;
        }
        begin.elapsed()
    }
}

/// A figure for the reader of the run: median and greatest.
///
/// # Panics
/// Without a value.
pub fn measured(what: &str, values: &mut [Duration]) -> (Duration, Duration) {
    values.sort();
    let (median, most) = (values[values.len() / 2], values[values.len() - 1]);
    println!("measured: {what}: p50 {median:.1?}, max {most:.1?} of {}", values.len());
    (median, most)
}
