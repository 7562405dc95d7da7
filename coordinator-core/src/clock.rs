use std::time::Duration;

/// A moment on a clock that runs while the machine is suspended.
///
/// [`std::time::Instant`] stands still during suspend on Linux: a lease compared with it would look live after a
/// machine slept past its deadline.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Moment(pub(crate) u64);

impl Moment {
    /// Later than every moment that comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// This moment.
    pub fn now() -> Self {
        let now = rustix::time::clock_gettime(CLOCK);
        let (seconds, nanos) = (now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs());
        Self(seconds.saturating_mul(1_000_000_000).saturating_add(nanos))
    }

    /// The moment that much later.
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long it is from now until this moment; zero when it is past.
    pub fn remaining(self) -> Duration {
        if self == Self::NEVER {
            return Duration::MAX;
        }
        Duration::from_nanos(self.0.saturating_sub(Self::now().0))
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
