//! A cohort over no backend at all.

mod scripted;

use coordinator_core::Mode::{self, Exclusive, Shared};
use coordinator_core::{
    CancellationToken, Cohort, CohortBacked, CohortOptions, Driver, ErasureCoordinator, Error, FencingToken, Grant,
    Inspection, Look, LossReason, Scope, Session,
};
use scripted::caller::Caller;
use scripted::rig::scope;
use std::future::pending;
use std::sync::Arc;

#[derive(Clone, Debug)]
struct Alone(Session);

impl Grant for Alone {
    fn session(&self) -> &Session {
        &self.0
    }
}

impl Driver for Alone {
    type Grant = Self;

    const DISTRIBUTED: bool = false;

    fn without_backend(&self) -> Option<Self> {
        Some(self.clone())
    }

    async fn try_lock(&self, _: Scope, _: Mode) -> Result<Option<Self>, Error> {
        unreachable!("there is no backend")
    }

    async fn lock(&self, _: Scope, _: Mode, _: CancellationToken) -> Result<Option<Self>, Error> {
        unreachable!("there is no backend")
    }

    async fn unlock(&self, _: Scope, _: Self) -> Result<(), Error> {
        unreachable!("there is no backend")
    }

    async fn contended(&self, _: Scope, _: Self, _: Look) -> Result<bool, Error> {
        unreachable!("there is no backend")
    }

    async fn confirm(&self, _: Self) -> Result<(), Error> {
        unreachable!("there is no backend")
    }

    async fn verify(&self, _: Scope, _: Self) -> Result<(), Error> {
        Ok(())
    }

    async fn fence(&self, _: Scope, _: Self) -> Result<FencingToken, Error> {
        pending().await
    }

    async fn inspect(&self, _: Scope, own: Inspection) -> Result<Inspection, Error> {
        Ok(own)
    }

    async fn close(&self) {
        self.0.lose(LossReason::ShutDown);
    }
}

#[derive(Debug)]
struct Local(Cohort<Alone>);

impl CohortBacked for Local {
    type Driver = Alone;

    fn cohort(&self) -> &Cohort<Alone> {
        &self.0
    }
}

fn local() -> Arc<Local> {
    Arc::new(Local(Cohort::new(Alone(Session::unbounded()), CohortOptions::default())))
}

fn asking(local: &Arc<Local>, mode: Mode) -> Caller<Result<coordinator_core::Lease, Error>> {
    let local = Arc::clone(local);
    Caller::new(async move { local.acquire(&scope("s"), mode).await })
}

#[test]
fn everything_is_answered_in_the_callers_own_poll() {
    let local = local();
    let exclusive = asking(&local, Exclusive).ready().expect("free");
    let (mut first, mut second) = (asking(&local, Shared), asking(&local, Shared));
    assert!(first.is_pending() && second.is_pending());
    Caller::new(exclusive.release()).ready().expect("held to the end");
    let leases = (first.ready().expect("free"), second.ready().expect("shared"));
    let mut exclusive = asking(&local, Exclusive);
    assert!(exclusive.is_pending());
    drop(leases);
    drop(exclusive.ready().expect("free"));
    assert_eq!(local.0.scopes(), 0);
}

#[test]
fn a_lost_session_is_told_and_leaves_nothing() {
    let local = local();
    let lease = asking(&local, Exclusive).ready().expect("free");
    let mut waits = asking(&local, Exclusive);
    assert!(waits.is_pending());
    local.0.driver().0.lose(LossReason::Disconnected);
    assert!(asking(&local, Shared).ready().expect_err("lost").is_lost());
    assert!(waits.ready().expect_err("lost").is_lost());
    drop(lease);
    assert!(asking(&local, Exclusive).ready().expect_err("lost for good").is_lost());
    assert_eq!(local.0.scopes(), 0);
}

#[test]
fn a_fence_that_is_dropped_leaves_the_lease_as_it_was() {
    let local = local();
    let lease = Arc::new(asking(&local, Exclusive).ready().expect("free"));
    let mut fence = Caller::new({
        let lease = Arc::clone(&lease);
        async move { lease.fence().await }
    });
    assert!(fence.is_pending());
    drop(fence);
    assert!(lease.ensure_live().is_ok());
    drop(lease);
    assert_eq!(local.0.scopes(), 0);
}
