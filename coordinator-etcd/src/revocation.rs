use crate::grant::Held;
use crate::keys::Keyspace;
use crate::servers::Servers;
use crate::session::LIMIT;
use crate::watcher::Watcher;
use coordinator_core::{CancellationToken, Error, Scope, Upkeep};
use etcd_client::{GetOptions, PutOptions};
use std::time::Duration;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::sleep;
use tokio_util::sync::DropGuard;

/// Longer than an instance needs to come back to a server.
const TTL: i64 = 60;
const PAUSE: Duration = Duration::from_millis(200);

/// Hears of the scopes whose holders are asked to give up, until it is dropped.
pub(crate) struct Revocations {
    _stopped: DropGuard,
}

/// Reads all revocations that it has not seen, whenever the watch wakes.
struct Ear {
    servers: Servers,
    watcher: Watcher,
    keyspace: Keyspace,
    held: Held,
    revoked: UnboundedSender<Scope>,
}

impl Revocations {
    pub(crate) fn hear(
        servers: Servers,
        watcher: Watcher,
        keyspace: Keyspace,
        held: Held,
        upkeep: &Upkeep,
    ) -> (Self, UnboundedReceiver<Scope>) {
        let (revoked, heeded) = mpsc::unbounded_channel();
        let stopped = CancellationToken::new();
        let (ear, until) = (Ear { servers, watcher, keyspace, held, revoked }, stopped.clone());
        drop(upkeep.spawn(async move { until.run_until_cancelled(ear.listen()).await }));
        (Self { _stopped: stopped.drop_guard() }, heeded)
    }
}

impl Ear {
    async fn listen(self) {
        let mut seen = 0;
        loop {
            let mut watch = self.watcher.prefix(self.keyspace.revocations());
            while watch.changed().await {
                if let Err(error) = self.read(&mut seen).await {
                    tracing::warn!(%error, "the revocations could not be read");
                    break; // and with the next watch again
                }
            }
            sleep(PAUSE).await;
        }
    }

    async fn read(&self, seen: &mut i64) -> Result<(), Error> {
        let prefix = self.keyspace.revocations();
        let unseen = GetOptions::new().with_prefix().with_keys_only().with_min_mod_revision(*seen + 1);
        let found = self.servers.ask("revoke", LIMIT, |client| {
            let (prefix, unseen) = (prefix.as_str(), unseen.clone());
            async move { client.kv_client().get(prefix, Some(unseen)).await }
        });
        for key in found.await?.value.kvs() {
            *seen = key.mod_revision().max(*seen);
            // Who took the scope afterwards was not meant.
            if let Some(scope) = self.keyspace.revoked(key.key())
                && let Some(place) = self.held.find(&scope)
                && place.created < key.mod_revision()
            {
                let _ = self.revoked.send(scope); // nobody heeds it where the coordinator is gone
            }
        }
        Ok(())
    }
}

/// Asks whoever holds the scope to give up.
pub(crate) async fn revoke(servers: &Servers, key: String) -> Result<(), Error> {
    let lease = servers.ask("revoke", LIMIT, |client| async move { client.lease_client().grant(TTL, None).await });
    let with_lease = PutOptions::new().with_lease(lease.await?.value.id());
    let asked = servers.ask("revoke", LIMIT, |client| {
        let (key, with_lease) = (key.as_str(), with_lease.clone());
        async move { client.kv_client().put(key, "", Some(with_lease)).await }
    });
    asked.await.map(drop)
}
