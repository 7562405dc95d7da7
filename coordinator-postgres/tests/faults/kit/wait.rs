//! Waiting for a promise, with a deadline.

use std::fmt;
use std::future::Future;
use std::str::FromStr;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(2);

/// What `future` gives; a failure that says what was waited for when `limit` passes first.
#[track_caller]
pub(crate) fn within<F: Future>(limit: Duration, what: &str, future: F) -> impl Future<Output = F::Output> {
    let at = std::panic::Location::caller();
    async move {
        let output = tokio::time::timeout(limit, future).await;
        output.unwrap_or_else(|_| panic!("{at}: not within {limit:?}: {what}"))
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
            tokio::time::sleep(PAUSE).await;
        }
        begin.elapsed()
    }
}

/// Nanoseconds since boot: the same in every process of the host, and running on while one is frozen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Moment(u64);

pub(crate) fn now() -> Moment {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Moment(now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs())
}

impl Moment {
    pub(crate) fn elapsed(self) -> Duration {
        now().since(self)
    }

    /// Zero if it is the earlier one.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Moment {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

/// A figure for the reader of the run.
pub(crate) fn measured(what: &str, values: &mut [Duration]) -> (Duration, Duration) {
    values.sort();
    let (median, most) = (values[values.len() / 2], values[values.len() - 1]);
    println!("measured: {what}: p50 {median:.1?}, max {most:.1?} of {}", values.len());
    (median, most)
}
