//! The driver and the coordinator over it.

use super::parked::{Asked, Reply};
use super::{Grant, Scripted};
use coordinator_core::{
    CancellationToken, Cohort, CohortBacked, Driver, Error, FencingToken, Inspection, Look, LossReason, Mode, Scope,
};
use std::fmt;

impl Driver for Scripted {
    type Grant = Grant;

    const DISTRIBUTED: bool = true;

    async fn try_lock(&self, scope: Scope, mode: Mode) -> Result<Option<Grant>, Error> {
        self.ask_for_grant(Asked::TryLock { scope, mode }).await
    }

    async fn lock(&self, scope: Scope, mode: Mode, unwanted: CancellationToken) -> Result<Option<Grant>, Error> {
        self.ask_for_grant(Asked::Lock { scope, mode, unwanted }).await
    }

    async fn unlock(&self, scope: Scope, grant: Grant) -> Result<(), Error> {
        self.ask_to_do(Asked::Unlock { scope, grant }).await
    }

    async fn contended(&self, scope: Scope, grant: Grant, look: Look) -> Result<bool, Error> {
        match self.ask(Asked::Contended { scope, grant, look }).await {
            Reply::Contended(contended) => Ok(contended),
            Reply::Failed(error) => Err(error),
            _ => Ok(true),
        }
    }

    async fn confirm(&self, grant: Grant) -> Result<(), Error> {
        self.ask_to_do(Asked::Confirm { grant }).await
    }

    async fn verify(&self, scope: Scope, grant: Grant) -> Result<(), Error> {
        self.ask_to_do(Asked::Verify { scope, grant }).await
    }

    async fn fence(&self, scope: Scope, grant: Grant) -> Result<FencingToken, Error> {
        match self.ask(Asked::Fence { scope, grant }).await {
            Reply::Token(token) => Ok(FencingToken::new(token)),
            Reply::Failed(error) => Err(error),
            _ => Err(Error::lost("fence", LossReason::NotHeld)),
        }
    }

    async fn inspect(&self, _: Scope, own: Inspection) -> Result<Inspection, Error> {
        Ok(own)
    }

    async fn close(&self) {
        let _ = self.ask(Asked::Close).await;
        let mut sessions = self.script().sessions.clone();
        sessions.extend(self.script().held.values().map(|(.., session)| session.clone()));
        for session in sessions {
            session.lose(LossReason::ShutDown);
        }
    }
}

/// The coordinator over it.
pub struct Backed(pub Cohort<Scripted>);

impl CohortBacked for Backed {
    type Driver = Scripted;

    fn cohort(&self) -> &Cohort<Scripted> {
        &self.0
    }
}

impl fmt::Debug for Backed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Backed")
    }
}
