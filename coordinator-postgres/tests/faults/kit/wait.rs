//! Waiting for a promise, with a deadline.

use std::future::Future;
use std::time::{Duration, Instant};

pub(crate) const MOMENT: Duration = Duration::from_millis(2);

/// What `future` gives; a failure that says what was waited for when `limit` passes first.
#[track_caller]
pub(crate) fn within<F: Future>(limit: Duration, what: &str, future: F) -> impl Future<Output = F::Output> {
    let at = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(limit, future).await {
            Ok(output) => output,
            Err(_) => panic!("{at}: not within {limit:?}: {what}"),
        }
    }
}

/// Asks until it is so; answers how long that took.
#[track_caller]
pub(crate) fn until(
    limit: Duration,
    what: &str,
    mut is_so: impl AsyncFnMut() -> bool,
) -> impl Future<Output = Duration> {
    let at = std::panic::Location::caller();
    async move {
        let begin = Instant::now();
        while !is_so().await {
            assert!(begin.elapsed() < limit, "{at}: not within {limit:?}: {what}");
            tokio::time::sleep(MOMENT).await;
        }
        begin.elapsed()
    }
}

/// Time since boot: the same in every process of the host, and running on while one is frozen.
pub(crate) fn now() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).expect("nanoseconds"))
}

/// A figure for the reader of the run.
pub(crate) fn measured(what: &str, values: &mut [Duration]) -> (Duration, Duration) {
    values.sort();
    let (median, most) = (values[values.len() / 2], values[values.len() - 1]);
    println!("measured: {what}: p50 {median:.1?}, max {most:.1?} of {}", values.len());
    (median, most)
}
