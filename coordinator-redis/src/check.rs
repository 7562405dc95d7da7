//! Whether a server can keep the lock, by what it says of itself.

use coordinator_core::{Error, ErrorKind};
use std::collections::HashMap;

/// What is not wrong, but worth knowing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Findings {
    /// Whether leases and the fence's counter survive a crash of the server.
    pub(crate) is_durable: bool,
}

/// Judges the answer to `INFO`.
///
/// # Errors
/// `Invalid`, with the remedy, for a server that can't keep the lock; `Unavailable` for one that is still loading.
pub(crate) fn judge(info: &str) -> Result<Findings, Error> {
    let said: HashMap<&str, &str> = info.lines().filter_map(|line| line.trim().split_once(':')).collect();
    let says = |field: &str| said.get(field).copied().unwrap_or_default();
    let invalid = |why: String| Err(Error::new(ErrorKind::Invalid, "connect", why));
    let version = says("redis_version");
    if !is_recent(version) {
        return invalid(format!("Redis 6.2 or newer is needed, this is {version}"));
    }
    if says("loading") == "1" {
        return Err(Error::new(ErrorKind::Unavailable, "connect", "the server is still loading its data"));
    }
    if says("role") != "master" {
        return invalid(
            "the server is a replica: what it holds excludes nobody on the primary. Name the primary, or all servers \
             (redis://a,redis://b): the one that is the primary is taken"
                .into(),
        );
    }
    let policy = says("maxmemory_policy");
    if policy != "noeviction" {
        return invalid(format!(
            "the server's maxmemory-policy is {policy}: when its memory is full it drops live locks. Set it to noeviction"
        ));
    }
    Ok(Findings { is_durable: says("aof_enabled") == "1" })
}

fn is_recent(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (6, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Server\r\nredis_version:7.0.15\r\nloading:0\r\naof_enabled:1\r\nrole:master\r\n\
        maxmemory_policy:noeviction\r\n";

    #[test]
    fn a_server_that_drops_locks_is_refused_with_the_remedy() {
        assert_eq!(judge(GOOD).expect("good"), Findings { is_durable: true });
        assert_eq!(judge(&GOOD.replace("enabled:1", "enabled:0")).expect("good"), Findings { is_durable: false });
        for (good, bad, remedy) in [
            ("noeviction", "volatile-lru", "Set it to noeviction"),
            ("noeviction", "allkeys-random", "Set it to noeviction"),
            ("role:master", "role:slave", "Name the primary"),
            ("7.0.15", "6.0.16", "Redis 6.2 or newer"),
            ("7.0.15", "", "Redis 6.2 or newer"),
        ] {
            let refused = judge(&GOOD.replace(good, bad)).expect_err("refused");
            assert_eq!(refused.kind(), ErrorKind::Invalid);
            assert!(refused.to_string().contains(remedy), "{refused}");
        }
        assert_eq!(judge(&GOOD.replace("loading:0", "loading:1")).expect_err("later").kind(), ErrorKind::Unavailable);
    }
}
