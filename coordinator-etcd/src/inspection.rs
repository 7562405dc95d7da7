use crate::keys::Line;
use crate::servers::Servers;
use crate::session::LIMIT;
use coordinator_core::{Error, Inspection, Mode, Party};
use etcd_client::{GetOptions, KeyValue, SortOrder, SortTarget};

pub(crate) async fn inspect(
    servers: &Servers,
    line: &Line,
    own: &Inspection,
    instance: &str,
) -> Result<Inspection, Error> {
    let everybody = GetOptions::new().with_prefix().with_sort(SortTarget::Create, SortOrder::Ascend);
    let found = servers.ask("inspect", LIMIT, |client| {
        let everybody = everybody.clone();
        async move { client.kv_client().get(line.everybody(), Some(everybody)).await }
    });
    let found = found.await?.value;
    let parties: Vec<_> = found.kvs().iter().filter_map(|key| party(line, key)).collect();
    // An exclusive place holds where it is the first; shared ones where no exclusive one stands before them.
    let served = match parties.iter().position(|party| party.mode == Some(Mode::Exclusive)) {
        Some(0) => 1,
        Some(first) => first,
        None => parties.len(),
    };
    let mut holders = parties;
    let mut waiters = holders.split_off(served);
    // Callers that queue in this process behind its own lease are not at the server.
    if let Some(first) = own.waiters.first()
        && waiters.iter().all(|waiter| waiter.instance != instance)
    {
        waiters.push(Party::new(instance, first.mode, None));
    }
    Ok(Inspection::new(holders, waiters))
}

fn party(line: &Line, key: &KeyValue) -> Option<Party> {
    let mode = line.mode(key.key())?;
    Some(Party::new(String::from_utf8_lossy(key.value()), Some(mode), None))
}
