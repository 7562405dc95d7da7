use std::time::Duration;

/// How long things take, derived from a session's time to live.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// After this long without a renewal the session has ended at the server.
    pub(crate) time_to_live: Duration,
    /// How long opening a connection, or waiting for one, may take.
    pub(crate) connect: Duration,
}

impl Times {
    pub(crate) const SHORTEST: Duration = Duration::from_secs(1);
    /// A scope's key, renewed once in a third of [`REAP`](Self::REAP), has to outlive the sessions of who stands in it.
    pub(crate) const LONGEST: Duration = Duration::from_secs(5 * 60);
    /// After this long a scope's key that only dead sessions stand in is gone.
    pub(crate) const REAP: Duration = Duration::from_secs(30 * 60);

    /// How long after the send of an answered renewal the server can't have ended the session.
    ///
    /// A tenth less than its time to live: two clocks that count seconds don't run equally fast.
    pub(crate) fn guaranteed(&self) -> Duration {
        self.time_to_live * 9 / 10
    }

    /// A waiter that was not renewed for this long is skipped.
    pub(crate) fn silence_of_waiters(&self) -> Duration {
        (self.time_to_live / 2).min(Duration::from_secs(5))
    }

    /// What a session's key has left when a waiter is to be skipped.
    pub(crate) fn floor(&self) -> Duration {
        self.time_to_live.saturating_sub(self.silence_of_waiters())
    }

    pub(crate) fn heartbeat(&self) -> Duration {
        self.silence_of_waiters() / 3
    }

    /// After this long without an answer to a heartbeat the connection is replaced, in time to try another one.
    pub(crate) fn patience(&self) -> Duration {
        (self.connect / 2).min(self.guaranteed() / 3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_gives_up_before_the_server_can_and_after_several_attempts() {
        for millis in [1_000, 2_000, 5_000, 30_000, 300_000] {
            let time_to_live = Duration::from_millis(millis);
            let times = Times { time_to_live, connect: Duration::from_secs(5) };
            assert!(times.guaranteed() < time_to_live);
            assert!(times.heartbeat() * 3 <= times.silence_of_waiters());
            assert!(times.heartbeat() + 2 * times.patience() < times.guaranteed(), "{millis}");
            assert!(times.floor() + times.silence_of_waiters() == time_to_live);
            assert!(Times::REAP / 3 > time_to_live);
        }
    }
}
