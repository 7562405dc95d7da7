use crate::error::is_without_lease;
use crate::servers::Refused;
use crate::session::{LIMIT, State};
use crate::watcher::Watcher;
use coordinator_core::{CancellationToken, LossReason};
use etcd_client::{LeaseTimeToLiveResponse, TxnOp};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::sleep;

/// Between attempts at what a server refuses at once.
const PAUSE: Duration = Duration::from_millis(200);
/// Of a transaction's operations, of which servers take 128 by default.
const MOST_DEBTS: usize = 100;

/// The task that owns a lease. States: renewing, then revoking with the session lost, then ended.
pub(crate) struct Renewal {
    pub(crate) state: Arc<State>,
    pub(crate) watcher: Watcher,
}

impl Renewal {
    pub(crate) async fn run(self, abandoned: CancellationToken, debts: UnboundedReceiver<String>) {
        let reason = tokio::select! {
            biased;
            reason = self.state.session.lost() => reason,
            () = abandoned.cancelled() => LossReason::ShutDown,
            reason = self.renew() => reason,
            reason = self.watch() => reason,
            reason = self.pay(debts) => reason,
        };
        tracing::debug!(%reason, "the lease of this instance ends");
        self.state.session.lose(reason);
        self.revoke().await;
    }

    /// One answer that fails is no end: it goes on until the lease is dead, or the session's deadline has passed.
    async fn renew(&self) -> LossReason {
        loop {
            sleep(self.state.ttl / 3).await;
            while let Err(refused) = self.state.renew(self.state.session.remaining()).await {
                if is_dead(&refused) && self.has_ended().await {
                    return LossReason::NotHeld;
                }
                tracing::warn!(?refused, "the lease of this instance could not be renewed yet");
                sleep(PAUSE).await;
            }
        }
    }

    /// Asked once more, since the client tells a dead lease (E9) by a text only.
    async fn has_ended(&self) -> bool {
        let lease = self.state.lease;
        let asked = self.state.servers.ask("renew", LIMIT, |client| async move {
            client.lease_client().time_to_live(lease, None).await.map(|found| LeaseTimeToLiveResponse::ttl(&found))
        });
        asked.await.is_ok_and(|answer| answer.value <= 0)
    }

    /// The end of the lease, as soon as the server knows it.
    async fn watch(&self) -> LossReason {
        loop {
            let mut watch = self.watcher.key(self.state.key.clone());
            while watch.changed().await {
                if self.state.confirm("renew").await.is_err() && self.state.session.loss().is_some() {
                    return LossReason::NotHeld;
                }
            }
            sleep(PAUSE).await;
        }
    }

    /// Deletes what may have been left behind.
    async fn pay(&self, mut debts: UnboundedReceiver<String>) -> LossReason {
        let mut keys = Vec::new();
        while debts.recv_many(&mut keys, MOST_DEBTS).await > 0 {
            let delete: Vec<_> = keys.drain(..).map(|key| TxnOp::delete(key, None)).collect();
            while let Err(error) = self.state.begin_epoch("release", self.state.session.remaining(), &delete).await {
                tracing::warn!(%error, "what an unanswered request may have left is not removed yet");
                sleep(PAUSE).await;
            }
        }
        LossReason::ShutDown
    }

    /// Also of a lease that is lost to us only: its scopes are free sooner.
    async fn revoke(&self) {
        let lease = self.state.lease;
        let revoked = self
            .state
            .servers
            .ask_any(self.state.ttl, |client| async move { client.lease_client().revoke(lease).await });
        match revoked.await {
            Err(refused) if !is_dead(&refused) => {
                tracing::warn!(?refused, "the lease of this instance is left to the server: it ends with its TTL");
            }
            _ => {}
        }
    }
}

/// Also where its runtime is shut down under it.
impl Drop for Renewal {
    fn drop(&mut self) {
        self.state.session.lose(LossReason::ShutDown); // what it is lost by already stays
        self.state.ended.cancel();
    }
}

fn is_dead(refused: &Refused) -> bool {
    matches!(refused, Refused::Failed(error) if is_without_lease(error))
}
