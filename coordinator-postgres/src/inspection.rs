use crate::error::classify;
use crate::keys::Keys;
use coordinator_core::{Error, Inspection, Mode, Party};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

/// What every role may see; probing by a try-lock would make other probers see "held".
///
/// By functions, not by `pg_stat_activity` and `pg_database`: a look that waited for a lock of a catalogue would keep
/// the heartbeats behind it waiting too.
const INSPECT: &str = "SELECT l.pid, (classid::bigint << 32) | objid::bigint = $1, l.mode = 'ExclusiveLock', l.granted,
        coalesce(nullif(a.application_name, ''), 'process ' || l.pid), extract(epoch FROM l.waitstart)::float8
    FROM pg_locks l LEFT JOIN pg_stat_get_activity(NULL) a ON a.pid = l.pid
    WHERE l.locktype = 'advisory' AND l.objsubid = 1
        AND l.database = (SELECT datid FROM pg_stat_get_activity(pg_backend_pid()))
        AND (classid::bigint << 32) | objid::bigint IN ($1, $2)";

pub(crate) async fn inspect(client: &Client, keys: Keys, own: Inspection, instance: &str) -> Result<Inspection, Error> {
    let rows = client
        .query_typed(INSPECT, &[(&keys.scope, Type::INT8), (&keys.turnstile, Type::INT8)])
        .await
        .map_err(|error| classify("inspect", error))?;
    let mut holders = BTreeMap::new();
    let mut waiters: BTreeMap<i32, Party> = BTreeMap::new();
    for row in rows {
        let (pid, is_scope, exclusive, granted): (i32, bool, bool, bool) =
            (row.get(0), row.get(1), row.get(2), row.get(3));
        let (name, since): (String, Option<f64>) = (row.get(4), row.get(5));
        let mode = if exclusive { Mode::Exclusive } else { Mode::Shared };
        let name = instance_of(&name);
        if is_scope && granted {
            holders.insert(pid, Party::new(name, Some(mode), None));
        } else if is_scope || exclusive {
            // Of the turnstile only the exclusive lock is a waiter's: a try takes it shared for a moment.
            let party = waiters.entry(pid).or_insert_with(|| Party::new(name, None, None));
            party.mode = party.mode.or(is_scope.then_some(mode));
            party.since = party.since.or(since.and_then(moment));
        }
    }
    waiters.retain(|pid, _| !holders.contains_key(pid));
    let mut waiters: Vec<Party> = waiters.into_values().collect();
    // Callers that queue in this process behind its own lease are not at the server.
    if let Some(first) = own.waiters.first()
        && waiters.iter().all(|waiter| waiter.instance != instance)
    {
        waiters.push(Party::new(instance, first.mode, None));
    }
    Ok(Inspection::new(holders.into_values().collect(), waiters))
}

/// `coordinator <fingerprint> <instance>`, or what another client calls itself.
fn instance_of(application_name: &str) -> String {
    let ours = application_name.strip_prefix("coordinator ").and_then(|rest| rest.split_once(' '));
    ours.map_or(application_name, |(_, instance)| instance).to_owned()
}

fn moment(epoch_seconds: f64) -> Option<SystemTime> {
    Duration::try_from_secs_f64(epoch_seconds).ok().and_then(|since| UNIX_EPOCH.checked_add(since))
}
