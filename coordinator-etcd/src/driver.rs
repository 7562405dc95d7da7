use crate::current::Current;
use crate::fence::fence;
use crate::grant::{Grant, Held};
use crate::inspection::inspect;
use crate::keys::Keyspace;
use crate::proof::prove;
use crate::revocation::Revocations;
use crate::session::{LIMIT, Plan};
use crate::waiting::Waiting;
use coordinator_core::{CancellationToken, Driver, Error, FencingToken, Grant as _, Inspection, Look, Mode, Scope};
use std::fmt;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedReceiver;

/// The lock on etcd; reached only through its coordinator.
pub struct EtcdDriver {
    pub(crate) plan: Plan,
    pub(crate) held: Held,
    current: Arc<Current>,
    waiting: Waiting,
    fence_epoch: u16,
    _revocations: Revocations,
}

impl fmt::Debug for EtcdDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdDriver").field("instance", &self.plan.instance).finish_non_exhaustive()
    }
}

impl EtcdDriver {
    /// Looks at all servers, opens the session and proves that two sessions of these servers exclude each other.
    ///
    /// Also answers what tells the scopes whose holders are to give up.
    pub(crate) async fn connect(
        plan: Plan,
        outlast_outages: bool,
        fence_epoch: u16,
    ) -> Result<(Self, UnboundedReceiver<Scope>), Error> {
        plan.servers.check(plan.connect_timeout).await?;
        let current = Arc::new(Current::new(plan.clone()));
        prove(&current.session().await?, &plan).await?;
        let held = Held::default();
        let (servers, watcher) = (plan.servers.clone(), plan.watcher.clone());
        let (revocations, revoked) =
            Revocations::hear(servers, watcher.clone(), plan.keyspace.clone(), held.clone(), &plan.upkeep);
        let waiting = Waiting { current: Arc::clone(&current), watcher, outlast_outages };
        Ok((Self { plan, held, current, waiting, fence_epoch, _revocations: revocations }, revoked))
    }

    pub(crate) fn keyspace(&self) -> &Keyspace {
        &self.plan.keyspace
    }
}

impl Driver for EtcdDriver {
    type Grant = Grant;

    const DISTRIBUTED: bool = true;

    async fn try_lock(&self, scope: Scope, mode: Mode) -> Result<Option<Grant>, Error> {
        let line = self.keyspace().line(&scope);
        let mut session = self.current.session().await?;
        let mut taken = line.take(&session, mode).await;
        if taken.is_err() && session.state.session.loss().is_some() {
            // Whatever the lost session got is void; its successor can be asked at once.
            session = self.current.session().await?;
            taken = line.take(&session, mode).await;
        }
        Ok(taken?.map(|place| Grant::new(scope, place, &self.held)))
    }

    async fn lock(&self, scope: Scope, mode: Mode, unwanted: CancellationToken) -> Result<Option<Grant>, Error> {
        let place = self.waiting.wait(&self.keyspace().line(&scope), mode, &unwanted).await?;
        Ok(place.map(|place| Grant::new(scope, place, &self.held)))
    }

    async fn unlock(&self, _: Scope, grant: Grant) -> Result<(), Error> {
        if grant.place.leave("release", grant.session().remaining()).await? {
            return Ok(());
        }
        Err(grant.place.session.state.not_held("release"))
    }

    async fn contended(&self, scope: Scope, grant: Grant, _: Look) -> Result<bool, Error> {
        let line = self.keyspace().line(&scope);
        grant.place.is_wanted(line.everybody(), &line.in_the_way_of(Mode::Shared)).await
    }

    async fn confirm(&self, grant: Grant) -> Result<(), Error> {
        let confirmed = grant.place.session.state.confirm("release");
        tokio::select! {
            biased;
            reason = grant.session().lost() => Err(Error::lost("release", reason)),
            confirmed = confirmed => confirmed,
        }
    }

    async fn verify(&self, _: Scope, grant: Grant) -> Result<(), Error> {
        grant.place.verify().await
    }

    async fn fence(&self, _: Scope, grant: Grant) -> Result<FencingToken, Error> {
        fence(&grant.place, self.fence_epoch).await
    }

    async fn inspect(&self, scope: Scope, own: Inspection) -> Result<Inspection, Error> {
        inspect(&self.plan.servers, &self.keyspace().line(&scope), &own, &self.plan.instance).await
    }

    async fn close(&self) {
        self.current.close(LIMIT).await;
    }
}
