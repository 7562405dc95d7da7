use crate::batch::Op;
use crate::connect::Connector;
use crate::fence::token;
use crate::grant::Grant;
use crate::inspection::inspect;
use crate::keys::Keyspace;
use crate::primary::Primary;
use crate::settings::Settings;
use crate::turnstile::Turnstile;
use crate::waiting::Waiting;
use coordinator_core::{CancellationToken, Driver, Error, ErrorKind, FencingToken, Inspection, Look, Mode, Scope};
use std::fmt;
use std::sync::Arc;
use tokio_postgres::types::Type;

/// The lock on PostgreSQL; reached only through its coordinator.
pub struct PostgresDriver {
    pub(crate) primary: Arc<Primary>,
    turnstile: Turnstile,
    keyspace: Keyspace,
    instance: String,
    fence_epoch: u16,
}

impl fmt::Debug for PostgresDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresDriver").field("instance", &self.instance).finish_non_exhaustive()
    }
}

/// What a driver is made of.
pub(crate) struct Plan {
    pub(crate) connector: Arc<Connector>,
    pub(crate) holding: Settings,
    pub(crate) waiting_sessions: usize,
    pub(crate) outlast_outages: bool,
    pub(crate) keyspace: Keyspace,
    pub(crate) channel: String,
    pub(crate) instance: String,
    pub(crate) fence_epoch: u16,
}

impl PostgresDriver {
    /// Opens the primary and proves, with a second session, that two sessions of this server exclude each other.
    ///
    /// Also answers how many locks the server can hold.
    pub(crate) async fn connect(plan: Plan) -> Result<(Self, usize), Error> {
        let Plan { connector, holding, waiting_sessions, outlast_outages, keyspace, channel, instance, fence_epoch } =
            plan;
        let primary = Arc::new(Primary::new(Arc::clone(&connector), holding.clone(), channel));
        let open = primary.current().await?;
        let second = Waiting::open(&connector).await?;
        if second.try_lock(open.identity).await? {
            let message = "two sessions of this server do not exclude each other: what stands between is no PostgreSQL \
                server, or a pooler that mixes sessions. Connect to the server itself";
            return Err(Error::new(ErrorKind::Invalid, "connect", message));
        }
        let turnstile = Turnstile::new(Arc::clone(&primary), connector, holding, outlast_outages, waiting_sessions);
        turnstile.rest(second, None).await;
        Ok((Self { primary, turnstile, keyspace, instance, fence_epoch }, open.lock_table))
    }

    /// Says so if an instance with other keys, which this one does not exclude, uses the database.
    pub(crate) async fn warn_of_strangers(&self, fingerprint: &str) {
        let Ok(open) = self.primary.current().await else { return };
        // By the function, as in `inspection`: the view would wait for a lock of a catalogue.
        let sql = "SELECT DISTINCT application_name FROM pg_stat_get_activity(NULL)
            WHERE datid = (SELECT datid FROM pg_stat_get_activity(pg_backend_pid()))
            AND application_name LIKE 'coordinator %'";
        let Ok(rows) = open.holding.client().query_typed(sql, &[]).await else { return };
        for row in rows {
            let name: String = row.get(0);
            if name.split(' ').nth(1) != Some(fingerprint) {
                tracing::warn!(
                    peer = name,
                    own = fingerprint,
                    "an instance with another namespace or digest key uses this database: the two do not exclude each other"
                );
            }
        }
    }

    /// A random key that the primary holds.
    pub(crate) async fn identity(&self) -> Result<i64, Error> {
        self.primary.current().await.map(|open| open.identity)
    }
}

impl Driver for PostgresDriver {
    type Grant = Grant;

    const DISTRIBUTED: bool = true;

    async fn try_lock(&self, scope: Scope, mode: Mode) -> Result<Option<Grant>, Error> {
        let keys = self.keyspace.keys(&scope);
        let mut holding = self.primary.current().await?.holding;
        let mut got = holding.ask(Op::Try(mode), keys).await;
        if got.is_err() && holding.session().loss().is_some() {
            // Whatever the lost session got is void; its successor can be asked at once.
            holding = self.primary.current().await?.holding;
            got = holding.ask(Op::Try(mode), keys).await;
        }
        Ok(got?.then(|| Grant::new(holding, keys, mode, None)))
    }

    async fn lock(&self, scope: Scope, mode: Mode, unwanted: CancellationToken) -> Result<Option<Grant>, Error> {
        self.turnstile.wait(self.keyspace.keys(&scope), mode, &unwanted).await
    }

    async fn unlock(&self, _: Scope, grant: Grant) -> Result<(), Error> {
        match grant.holding.ask(Op::Unlock(grant.mode), grant.keys).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(grant.holding.not_held("release")),
            Err(error) => Err(lost_or("release", &grant, error)),
        }
    }

    async fn contended(&self, _: Scope, grant: Grant, look: Look) -> Result<bool, Error> {
        if grant.holding.ask(Op::Contended, grant.keys).await? {
            return Ok(true);
        }
        match look {
            Look::Quick => Ok(false),
            Look::Thorough => waiters_without_turnstile(&grant).await,
        }
    }

    async fn confirm(&self, grant: Grant) -> Result<(), Error> {
        match grant.holding.ask(Op::Confirm, grant.keys).await {
            Ok(_) => grant.holding.session().ensure_live("release"),
            Err(error) => Err(lost_or("release", &grant, error)),
        }
    }

    async fn verify(&self, _: Scope, grant: Grant) -> Result<(), Error> {
        grant.holding.verify(grant.keys, grant.mode).await
    }

    async fn fence(&self, _: Scope, grant: Grant) -> Result<FencingToken, Error> {
        match grant.holding.fence(grant.keys, grant.mode).await? {
            Some(row) => token(row.get(0), row.get(1), self.fence_epoch),
            None => Err(grant.holding.not_held("fence")),
        }
    }

    async fn inspect(&self, scope: Scope, own: Inspection) -> Result<Inspection, Error> {
        let holding = self.primary.current().await?.holding;
        inspect(holding.client(), self.keyspace.keys(&scope), own, &self.instance).await
    }

    async fn close(&self) {
        self.primary.close();
        self.turnstile.close();
    }
}

/// A request that failed because the session was lost says so.
fn lost_or(operation: &'static str, grant: &Grant, error: Error) -> Error {
    match grant.holding.session().loss() {
        Some(reason) => Error::lost(operation, reason),
        None => error,
    }
}

/// Instances that know no turnstile queue on the key itself; only a look into the lock table shows them.
async fn waiters_without_turnstile(grant: &Grant) -> Result<bool, Error> {
    let sql = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objsubid = 1
        AND database = (SELECT datid FROM pg_stat_get_activity(pg_backend_pid()))
        AND (classid::bigint << 32) | objid::bigint = $1)";
    let rows = grant.holding.client().query_typed(sql, &[(&grant.keys.scope, Type::INT8)]).await;
    let rows = rows.map_err(|error| crate::error::classify("lock", error))?;
    Ok(rows.first().is_some_and(|row| row.get(0)))
}

#[cfg(test)]
mod tests {
    use crate::{ErasureCoordinator, ErrorKind, Lease, LossReason, Mode, PostgresCoordinator, Scope};
    use coordinator_core::CohortBacked;
    use std::time::Duration;

    const NOT_HELD: ErrorKind = ErrorKind::Lost(LossReason::NotHeld);

    async fn connect() -> PostgresCoordinator {
        let url = std::env::var("COORDINATOR_TEST_POSTGRES_URL");
        let url = url.expect("COORDINATOR_TEST_POSTGRES_URL is not set: run under scripts/with-servers");
        let namespace = format!("{:016x}", getrandom::u64().expect("a random number"));
        let builder = PostgresCoordinator::builder(&url).expect("a URL").namespace(namespace);
        builder.connect().await.expect("connected")
    }

    /// Three leases that the server has forgotten, by what only the holding session itself can do to it.
    async fn forgotten(coordinator: &PostgresCoordinator) -> [Lease; 3] {
        let acquire = async |name, mode| {
            let lease = coordinator.acquire(&Scope::new(name).expect("a valid name"), mode).await.expect("free");
            lease.verify(Duration::from_secs(1)).await.expect("held");
            lease
        };
        let leases = [
            acquire("a", Mode::Exclusive).await,
            acquire("b", Mode::Shared).await,
            acquire("c", Mode::Exclusive).await,
        ];
        let open = coordinator.cohort().driver().primary.current().await.expect("open");
        open.holding.client().batch_execute("SELECT pg_advisory_unlock_all()").await.expect("unlocked");
        for lease in &leases {
            lease.ensure_live().expect("nobody knows yet");
        }
        leases
    }

    /// All other leases of the session are told, and the coordinator goes on with a new one.
    async fn told(coordinator: &PostgresCoordinator, others: impl IntoIterator<Item = Lease>) {
        for other in others {
            assert_eq!(other.lost().await, LossReason::NotHeld);
            assert_eq!(other.ensure_live().expect_err("lost").kind(), NOT_HELD);
            let again = coordinator.acquire(other.scope(), Mode::Exclusive).await.expect("free");
            again.verify(Duration::from_secs(1)).await.expect("held");
            assert_eq!(other.release().await.expect_err("lost").kind(), NOT_HELD);
            again.release().await.expect("held to the end");
        }
    }

    #[tokio::test]
    async fn a_release_that_finds_nothing_held_fails_and_tells_all() {
        for mode in 0..2 {
            let coordinator = connect().await;
            let mut leases = Vec::from(forgotten(&coordinator).await);
            assert_eq!(leases.remove(mode).release().await.expect_err("not held").kind(), NOT_HELD);
            told(&coordinator, leases).await;
        }
    }

    #[tokio::test]
    async fn a_drop_that_finds_nothing_held_tells_all() {
        let coordinator = connect().await;
        let [a, b, c] = forgotten(&coordinator).await;
        drop(a);
        told(&coordinator, [b, c]).await;
    }

    #[tokio::test]
    async fn verifying_what_is_not_held_fails_and_tells_all() {
        let coordinator = connect().await;
        let [a, b, c] = forgotten(&coordinator).await;
        assert_eq!(b.verify(Duration::ZERO).await.expect_err("not held").kind(), NOT_HELD);
        told(&coordinator, [a, b, c]).await;
    }

    #[tokio::test]
    async fn fencing_what_is_not_held_fails_and_tells_all() {
        let coordinator = connect().await;
        let [a, b, c] = forgotten(&coordinator).await;
        assert_eq!(c.fence().await.expect_err("not held").kind(), NOT_HELD);
        told(&coordinator, [a, b, c]).await;
    }

    #[tokio::test]
    async fn an_irreversible_step_on_what_is_not_held_never_begins() {
        let coordinator = connect().await;
        let [a, b, c] = forgotten(&coordinator).await;
        let step = a.irreversible(Duration::ZERO, async { panic!("it must not begin") }).await;
        assert_eq!(step.expect_err("not held").kind(), NOT_HELD);
        told(&coordinator, [a, b, c]).await;
    }
}
