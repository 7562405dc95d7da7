use std::time::Duration;

/// What a session tells the server, each value explicit: a default of the role or the database could end a holder.
///
/// In base units, as `pg_settings` shows them. `tcp_*` bind the server's kernel to notice a dead peer: keepalives
/// while the link is idle, the user timeout while a reply is in flight, the connection check while the backend
/// waits. One alone leaves a state in which a cut holder keeps its locks for minutes or hours.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// After this long without an answer a silent peer is dead to the server's kernel.
    user_timeout: Duration,
    /// After this long without a statement the server ends the session itself.
    idle_session_timeout: Option<Duration>,
}

const CONNECTION_CHECK: Duration = Duration::from_millis(500);

impl Settings {
    /// For a session that holds: dead to the server within `dead_peer_timeout`, whatever state the link is cut in.
    ///
    /// A reply in flight is given up a second or so after the user timeout (the kernel's retransmission timer), so
    /// that the promise needs room above it.
    pub(crate) fn holding(dead_peer_timeout: Duration, silent_for: Option<Duration>) -> Self {
        let room = Duration::from_secs(2).max(dead_peer_timeout / 5);
        Self { user_timeout: dead_peer_timeout.saturating_sub(room), idle_session_timeout: silent_for }
    }

    /// For a session that waits: nothing is lost with it, so a dead, cut or frozen one goes in a few seconds.
    pub(crate) fn waiting() -> Self {
        Self { user_timeout: Duration::from_secs(3), idle_session_timeout: Some(Duration::from_secs(5)) }
    }

    /// How long after the send of an answered statement the server can't have given the session up for silence.
    ///
    /// A tenth less than the server's earliest moment: its timers are coarse.
    pub(crate) fn guaranteed(&self) -> Duration {
        self.idle_session_timeout.map_or(self.user_timeout, |idle| idle.min(self.user_timeout)) * 9 / 10
    }

    /// The client's kernel gives the link up then, too.
    pub(crate) fn user_timeout(&self) -> Duration {
        self.user_timeout
    }

    /// After this long without a statement the server ends the session; zero: never.
    pub(crate) fn silence(&self) -> Duration {
        self.idle_session_timeout.unwrap_or_default()
    }

    pub(crate) fn heartbeat(&self) -> Duration {
        self.guaranteed() / 6
    }

    pub(crate) fn keepalive_interval(&self) -> Duration {
        Duration::from_secs((self.user_timeout.as_secs() / 10).max(1))
    }

    /// Name and value, and whether the server ignores it over a unix socket.
    pub(crate) fn all(&self) -> Vec<(&'static str, String, bool)> {
        let interval = self.keepalive_interval().as_secs();
        let probes = (self.user_timeout.as_secs() / interval).saturating_sub(1).max(1);
        let millis = |duration: Duration| duration.as_millis().to_string();
        let always = |name, value: String| (name, value, false);
        let over_tcp = |name, value: String| (name, value, true);
        vec![
            over_tcp("tcp_keepalives_idle", interval.to_string()),
            over_tcp("tcp_keepalives_interval", interval.to_string()),
            over_tcp("tcp_keepalives_count", probes.to_string()),
            over_tcp("tcp_user_timeout", millis(self.user_timeout)),
            always("client_connection_check_interval", millis(CONNECTION_CHECK)),
            always("idle_session_timeout", millis(self.silence())),
            always("idle_in_transaction_session_timeout", "0".into()),
            always("statement_timeout", "0".into()),
            // A holding session never waits for a scope. What else a look of it might wait for, a catalogue that is being
            // rewritten, must not keep the heartbeats behind it from being answered. A waiting session sets its slices.
            always("lock_timeout", millis(self.guaranteed() / 4)),
            // A token must survive a crash (`off` would not) and must not hang without a standby (`on` would).
            always("synchronous_commit", "local".into()),
            always("default_transaction_read_only", "off".into()),
            always("search_path", "pg_catalog".into()),
            always("client_min_messages", "error".into()),
        ]
    }

    /// As one string for the startup message; it overrides defaults of the role.
    pub(crate) fn startup_options(&self) -> String {
        let each = self.all().into_iter().map(|(name, value, _)| format!("-c {name}={value}"));
        each.collect::<Vec<_>>().join(" ")
    }

    /// As statements, for a session that changes its kind.
    pub(crate) fn statements(&self) -> String {
        let each = self.all().into_iter().map(|(name, value, _)| format!("SET {name} = '{value}'"));
        each.collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_gives_up_before_the_server_can() {
        for seconds in [4, 5, 10, 25, 60, 600] {
            let dead = Duration::from_secs(seconds);
            let settings = Settings::holding(dead, None);
            let of = |name: &str| {
                let all = settings.all();
                all.iter().find(|(n, ..)| *n == name).map_or(0, |(_, value, _)| value.parse::<u64>().expect("a number"))
            };
            let keepalives = of("tcp_keepalives_idle") + of("tcp_keepalives_interval") * of("tcp_keepalives_count");
            let earliest = Duration::from_millis(of("tcp_user_timeout")).min(Duration::from_secs(keepalives.max(1)));
            assert!(settings.guaranteed() < earliest, "{seconds}: {settings:?}, {earliest:?}");
            assert!(settings.user_timeout + Duration::from_millis(1_200) <= dead, "{seconds}");
            assert!(settings.heartbeat() * 4 < settings.guaranteed());
        }
    }

    #[test]
    fn silence_shortens_the_guarantee() {
        let settings = Settings::holding(Duration::from_secs(25), Some(Duration::from_secs(3)));
        assert!(settings.guaranteed() < Duration::from_secs(3));
    }
}
