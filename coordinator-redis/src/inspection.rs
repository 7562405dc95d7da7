use coordinator_core::{Error, ErrorKind, Inspection, Mode, Party};
use redis::Value;
use std::time::{Duration, UNIX_EPOCH};

/// What the server and this instance's own queue know; the line names the own instance by nothing.
pub(crate) fn inspection(line: Value, own: &Inspection, instance: &str) -> Result<Inspection, Error> {
    let line: Vec<(String, String, String, String)> = redis::from_redis_value(line).map_err(|error| {
        Error::with_source(ErrorKind::Unavailable, "inspect", "the server's answer can't be read", error)
    })?;
    let mut found = Inspection::default();
    for (name, mode, state, since) in line {
        let name = if name.is_empty() { instance } else { &name };
        let mode = if mode == "x" { Mode::Exclusive } else { Mode::Shared };
        let since = since.parse().ok().and_then(|millis| UNIX_EPOCH.checked_add(Duration::from_millis(millis)));
        let parties = if state == "h" { &mut found.holders } else { &mut found.waiters };
        parties.push(Party::new(name, Some(mode), since));
    }
    // Callers that queue in this process behind its own lease are not at the server.
    if let Some(first) = own.waiters.first()
        && found.waiters.iter().all(|waiter| waiter.instance != instance)
    {
        found.waiters.push(Party::new(instance, first.mode, None));
    }
    Ok(found)
}
