use crate::error::{is_passing, is_without_lease};
use crate::keys::{Keyspace, Line};
use crate::renewal::Renewal;
use crate::servers::{Refused, Servers};
use crate::watcher::Watcher;
use coordinator_core::{CancellationToken, Error, ErrorKind, LossReason, Mode, Moment, Session, Upkeep};
use etcd_client::{Client, Compare, CompareOp, GetOptions, LeaseGrantOptions, PutOptions, Txn, TxnOp, TxnOpResponse};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::DropGuard;

/// How long a question may take that its caller waits for.
pub(crate) const LIMIT: Duration = Duration::from_secs(5);

/// The instance's lease at the server; when the last handle is dropped the lease is revoked.
///
/// Its key at the server lives as long as it does, so the end of the one is seen by a watch on the other. The revision of
/// that key's last write is the session's epoch: every request that puts a key is bound to it. To know what became of a
/// request whose answer was lost, the key is written again, and what was bound to the old epoch can't happen any more.
#[derive(Clone)]
pub(crate) struct LeaseSession {
    pub(crate) state: Arc<State>,
    _abandoned: Arc<DropGuard>,
}

pub(crate) struct State {
    pub(crate) servers: Servers,
    pub(crate) session: Session,
    pub(crate) lease: i64,
    pub(crate) ttl: Duration,
    pub(crate) key: String,
    instance: String,
    epoch: AtomicI64,
    next: AtomicU64,
    owed: mpsc::UnboundedSender<String>,
    /// Cancelled when the lease is revoked, or left to the server.
    pub(crate) ended: CancellationToken,
}

/// What a session is opened with.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) servers: Servers,
    pub(crate) watcher: Watcher,
    pub(crate) keyspace: Keyspace,
    pub(crate) instance: String,
    pub(crate) ttl: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) upkeep: Upkeep,
}

impl LeaseSession {
    pub(crate) async fn open(plan: &Plan) -> Result<Self, Error> {
        let (lease, sent) = (random()?, Moment::now());
        let asked = i64::try_from(plan.ttl.as_secs()).unwrap_or(i64::MAX);
        let granted = plan.servers.ask("connect", plan.connect_timeout, |client| grant(client, lease, asked)).await?;
        let ttl = Duration::from_secs(granted.value.unsigned_abs());
        if granted.value < asked {
            let message = format!("the server grants a TTL of {} s where {asked} s were asked for", granted.value);
            return Err(Error::new(ErrorKind::Invalid, "connect", message));
        } else if granted.value > asked {
            tracing::warn!(?ttl, "the server grants a longer TTL: a dead instance's scopes are free so much later");
        }
        let session = Session::until(sent.after(guaranteed(ttl)));
        let (owed, debts) = mpsc::unbounded_channel();
        let abandoned = CancellationToken::new();
        let state = Arc::new(State {
            servers: plan.servers.clone(),
            session,
            lease,
            ttl,
            key: plan.keyspace.session(lease),
            instance: plan.instance.clone(),
            epoch: AtomicI64::new(0),
            next: AtomicU64::new(0),
            owed,
            ended: CancellationToken::new(),
        });
        // Without its key the lease holds nothing: should this fail, it is left to its TTL.
        state.begin_epoch("connect", plan.connect_timeout, &[]).await?;
        let renewal = Renewal { state: Arc::clone(&state), watcher: plan.watcher.clone() };
        drop(plan.upkeep.spawn(state.session.expiry(&plan.upkeep)));
        drop(plan.upkeep.spawn(renewal.run(abandoned.clone(), debts)));
        Ok(Self { state, _abandoned: Arc::new(abandoned.drop_guard()) })
    }

    /// Ends it with that reason; resolves when the server knows, or the time to tell it is over.
    pub(crate) async fn end(&self, reason: LossReason) {
        self.state.session.lose(reason);
        self.state.ended.cancelled().await;
    }
}

impl State {
    pub(crate) fn place(&self, line: &Line, mode: Mode) -> String {
        line.place(mode, self.lease, self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Puts a key that goes with the lease.
    pub(crate) fn put(&self, key: &str) -> TxnOp {
        TxnOp::put(key, self.instance.as_str(), Some(PutOptions::new().with_lease(self.lease)))
    }

    pub(crate) fn epoch(&self) -> i64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Holds until the next epoch begins, or the lease ends.
    pub(crate) fn is_in(&self, epoch: i64) -> Compare {
        Compare::mod_revision(self.key.as_str(), CompareOp::Equal, epoch)
    }

    /// To be answered with the session's key, for [`learn`](Self::learn).
    pub(crate) fn look(&self) -> TxnOp {
        TxnOp::get(self.key.as_str(), Some(GetOptions::new().with_keys_only()))
    }

    /// Whether another epoch has begun than the request was bound to, by an answer that came late.
    ///
    /// # Errors
    /// `Lost` if the key is gone, and so is the lease.
    pub(crate) fn learn(&self, bound_to: i64, answer: Option<&TxnOpResponse>) -> Result<bool, Error> {
        let Some(TxnOpResponse::Get(found)) = answer else { return Ok(false) };
        let Some(key) = found.kvs().first() else { return Err(self.not_held("lock")) };
        self.epoch.fetch_max(key.mod_revision(), Ordering::AcqRel);
        Ok(key.mod_revision() != bound_to)
    }

    /// Begins an epoch, then does the rest: what was sent before and is not done by then never will be.
    pub(crate) async fn begin_epoch(
        &self,
        operation: &'static str,
        limit: Duration,
        rest: &[TxnOp],
    ) -> Result<Vec<TxnOpResponse>, Error> {
        let operations: Vec<_> = std::iter::once(self.put(&self.key)).chain(rest.iter().cloned()).collect();
        let txn = Txn::new().and_then(operations);
        let answer = self.servers.ask_any(limit, |client| {
            let txn = txn.clone();
            async move { client.kv_client().txn(txn).await }
        });
        let answer = answer.await.map_err(|refused| self.told(operation, refused))?.value;
        self.epoch.fetch_max(answer.header().map_or(0, etcd_client::ResponseHeader::revision), Ordering::AcqRel);
        Ok(answer.op_responses())
    }

    /// When the key was created, of which it is not known whether it was.
    pub(crate) async fn settle(&self, key: &str) -> Result<Option<i64>, Error> {
        let look = TxnOp::get(key, Some(GetOptions::new().with_keys_only()));
        match self.begin_epoch("lock", LIMIT, &[look]).await {
            Ok(answers) => Ok(answers.iter().find_map(|answer| match answer {
                TxnOpResponse::Get(found) => found.kvs().first().map(etcd_client::KeyValue::create_revision),
                _ => None,
            })),
            Err(error) => {
                self.owe(key.to_owned());
                Err(error)
            }
        }
    }

    /// Has the session delete a key that may be there, as soon as a server answers.
    pub(crate) fn owe(&self, key: String) {
        let _ = self.owed.send(key); // where nobody receives the lease is over, and the key with it
    }

    /// Renews the lease once.
    pub(crate) async fn renew(&self, limit: Duration) -> Result<(), Refused> {
        let lease = self.lease;
        let renewed = self.servers.ask_any(limit, |client| async move {
            let sent = Moment::now();
            client.lease_client().keep_alive(lease).await.map(|_| sent)
        });
        self.session.renew(renewed.await?.value.after(guaranteed(self.ttl)));
        Ok(())
    }

    /// Whether the server has the lease, asked after this call.
    pub(crate) async fn confirm(&self, operation: &'static str) -> Result<(), Error> {
        let asked = self.servers.ask(operation, LIMIT, |client| {
            let key = self.key.as_str();
            async move { client.kv_client().get(key, Some(GetOptions::new().with_keys_only())).await }
        });
        if asked.await?.value.kvs().is_empty() {
            return Err(self.not_held(operation));
        }
        self.session.ensure_live(operation)
    }

    /// The server's books and ours differ: every lease of the session is in doubt, so all are told.
    pub(crate) fn not_held(&self, operation: &'static str) -> Error {
        self.session.lose(LossReason::NotHeld);
        Error::lost(operation, LossReason::NotHeld)
    }

    pub(crate) fn told(&self, operation: &'static str, refused: Refused) -> Error {
        match refused {
            Refused::Failed(error) if is_without_lease(&error) => self.not_held(operation),
            refused => refused.told(operation),
        }
    }
}

/// D after a renewal was sent: a tenth before the server could end the lease, for clocks that run differently.
fn guaranteed(ttl: Duration) -> Duration {
    ttl * 9 / 10
}

/// The TTL granted. The id is ours, so that a second request finds the first one's lease.
async fn grant(client: Client, lease: i64, ttl: i64) -> Result<i64, etcd_client::Error> {
    let granted = client.lease_client().grant(ttl, Some(LeaseGrantOptions::new().with_id(lease))).await;
    match granted {
        Ok(granted) => Ok(granted.ttl()),
        Err(error) if is_passing(&error) => Err(error),
        Err(error) => match client.lease_client().time_to_live(lease, None).await {
            Ok(found) if found.granted_ttl() > 0 => Ok(found.granted_ttl()),
            _ => Err(error),
        },
    }
}

/// A positive number that nobody else has.
pub(crate) fn random() -> Result<i64, Error> {
    let number = getrandom::u64().map_err(|error| {
        Error::new(ErrorKind::Unavailable, "connect", format!("the operating system gives no random number: {error}"))
    })?;
    Ok((number >> 1).cast_signed().max(1))
}
