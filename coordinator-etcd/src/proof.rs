use crate::keys::Keyspace;
use crate::session::{LIMIT, LeaseSession, Plan, random};
use crate::watcher::Watcher;
use coordinator_core::{Error, ErrorKind, LossReason, Mode, Scope};

/// Two sessions of one's own, the second by other connections and another server first, exclude each other.
pub(crate) async fn prove(first: &LeaseSession, plan: &Plan) -> Result<(), Error> {
    let servers = plan.servers.apart();
    let watcher = Watcher::start(servers.clone(), &plan.upkeep);
    let second = LeaseSession::open(&Plan { servers, watcher, ..plan.clone() }).await?;
    let outcome = exclude_each_other(first, &second, &plan.keyspace).await;
    second.end(LossReason::ShutDown).await;
    if outcome? {
        return Ok(());
    }
    let message = "two sessions of these endpoints do not exclude each other: what stands there is no etcd cluster, or \
        several. Give the endpoints of one cluster";
    Err(Error::new(ErrorKind::Invalid, "connect", message))
}

async fn exclude_each_other(first: &LeaseSession, second: &LeaseSession, keys: &Keyspace) -> Result<bool, Error> {
    let line = keys.line(&Scope::new(format!("coordinator proof {:x}", random()?))?);
    let Some(held) = line.take(first, Mode::Exclusive).await? else { return Ok(false) };
    let is_refused = line.take(second, Mode::Exclusive).await?.is_none();
    let is_left = held.leave("connect", LIMIT).await?;
    let got = line.take(second, Mode::Shared).await?;
    Ok(is_refused && is_left && got.is_some())
}
