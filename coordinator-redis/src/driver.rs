use crate::grant::Grant;
use crate::inspection::inspection;
use crate::session::{Plan, RedisSession, random};
use crate::sessions::Sessions;
use coordinator_core::{CancellationToken, Driver, Error, ErrorKind, FencingToken, Inspection, Look, Mode, Scope};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The lock on Redis; reached only through its coordinator.
pub struct RedisDriver {
    sessions: Sessions,
    /// An acquire outlasts a server that is away.
    outlast_outages: bool,
}

impl fmt::Debug for RedisDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisDriver").field("instance", &self.sessions.plan().instance).finish_non_exhaustive()
    }
}

impl RedisDriver {
    /// Begins the session and proves, with a second one, that two sessions of this server exclude each other.
    pub(crate) async fn connect(plan: Plan, outlast_outages: bool) -> Result<Self, Error> {
        let sessions = Sessions::new(Arc::new(plan));
        let (first, second) = (sessions.current().await?, RedisSession::open(sessions.plan()).await?);
        let mut digest = [0; 32];
        for chunk in digest.chunks_mut(8) {
            chunk.copy_from_slice(&random()?.to_be_bytes());
        }
        let scope = Scope::from_digest(digest);
        let held = first.take(&scope, Mode::Exclusive).await?;
        let excluded = second.take(&scope, Mode::Exclusive).await?.is_none();
        let freed = match held {
            Some(entry) => first.leave("connect", &scope, entry).await?,
            None => false,
        };
        second.close().await;
        if !(excluded && freed) {
            let message = "two sessions do not exclude each other: what stands between leads to several servers, or to \
                none that keeps what it is told. Connect to the primary itself";
            return Err(Error::new(ErrorKind::Invalid, "connect", message));
        }
        Ok(Self { sessions, outlast_outages })
    }

    pub(crate) async fn revoke(&self, scope: &Scope) -> Result<(), Error> {
        self.sessions.current().await?.revoke(scope).await
    }

    /// Before a server that is away is asked again; true: nobody waits for it any more.
    async fn pause(&self, failures: u32, unwanted: &CancellationToken) -> bool {
        tokio::select! {
            biased;
            () = unwanted.cancelled() => true,
            () = tokio::time::sleep(Duration::from_millis(50 << failures.min(5))) => false,
        }
    }

    async fn wait(&self, scope: &Scope, mode: Mode, unwanted: &CancellationToken) -> Result<Option<Grant>, Error> {
        let session = self.sessions.current().await?;
        let entry = session.wait(scope, mode, unwanted).await?;
        Ok(entry.map(|entry| Grant { session, scope: *scope, entry }))
    }
}

impl Driver for RedisDriver {
    type Grant = Grant;

    const DISTRIBUTED: bool = true;

    async fn try_lock(&self, scope: Scope, mode: Mode) -> Result<Option<Grant>, Error> {
        let mut session = self.sessions.current().await?;
        let mut taken = session.take(&scope, mode).await;
        if taken.is_err() && session.session().loss().is_some() {
            // Whatever the lost session got is void; its successor can be asked at once.
            session = self.sessions.current().await?;
            taken = session.take(&scope, mode).await;
        }
        let taken = taken.map_err(not_granted)?;
        Ok(taken.map(|entry| Grant { session, scope, entry }))
    }

    async fn lock(&self, scope: Scope, mode: Mode, unwanted: CancellationToken) -> Result<Option<Grant>, Error> {
        let mut failures = 0;
        loop {
            if unwanted.is_cancelled() {
                return Ok(None);
            }
            match self.wait(&scope, mode, &unwanted).await {
                Ok(granted) => return Ok(granted),
                // The session that waited is gone, and its place with it: a new one waits anew.
                Err(error) if error.is_lost() && failures == 0 => failures += 1,
                Err(error) if self.outlast_outages && (error.is_lost() || error.is_retryable()) => {
                    failures += 1;
                    tracing::debug!(%error, failures, "a wait failed and begins anew");
                    if self.pause(failures, &unwanted).await {
                        return Ok(None);
                    }
                }
                Err(error) => return Err(not_granted(error)),
            }
        }
    }

    async fn unlock(&self, scope: Scope, grant: Grant) -> Result<(), Error> {
        match grant.session.leave("release", &scope, grant.entry).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(grant.session.not_held("release")),
            Err(error) => Err(error),
        }
    }

    async fn contended(&self, scope: Scope, grant: Grant, _: Look) -> Result<bool, Error> {
        grant.session.contended(&scope, grant.entry).await
    }

    async fn confirm(&self, grant: Grant) -> Result<(), Error> {
        grant.session.verify("release", &grant.scope, grant.entry).await
    }

    async fn verify(&self, scope: Scope, grant: Grant) -> Result<(), Error> {
        grant.session.verify("verify", &scope, grant.entry).await
    }

    async fn fence(&self, scope: Scope, grant: Grant) -> Result<FencingToken, Error> {
        grant.session.fence(&scope, grant.entry).await.map(FencingToken::new)
    }

    async fn inspect(&self, scope: Scope, own: Inspection) -> Result<Inspection, Error> {
        let line = self.sessions.current().await?.line(&scope).await?;
        inspection(line, &own, &self.sessions.plan().instance)
    }

    async fn close(&self) {
        self.sessions.close().await;
    }
}

/// Nothing was held yet, so nothing was lost: it is to be tried again.
fn not_granted(error: Error) -> Error {
    if error.is_lost() {
        let message = "the session with the server ended before it was granted";
        return Error::with_source(ErrorKind::Unavailable, "lock", message, error);
    }
    error
}
