use crate::{CancellationToken, Cohort, Error, FencingToken, Inspection, Mode, Scope, Session};

/// One lock at the backend, as the driver names it.
pub trait Grant: Clone + Send + Sync + 'static {
    /// The session that the lock lives on.
    fn session(&self) -> &Session;
}

/// How closely a driver looks whether another instance waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// One cheap round trip; may miss waiters that don't follow this project's protocol.
    Quick,
    /// Finds every waiter; asked about once a second of a scope that is held all that time.
    Thorough,
}

/// What a backend implements; a [`Cohort`] over it is a coordinator.
///
/// What the cohort promises:
/// - All futures run on the [`Upkeep`](crate::Upkeep) runtime and are never dropped half-way, unless that runtime is
///   shut down.
/// - For one scope at most one of `try_lock`, `lock`, `unlock` and `contended` is outstanding. Only when a session
///   is lost may the next request come before the answer that the lost session owes.
///
/// What the driver owes:
/// - A lock is released by `unlock`, or by the end of its session, and by nothing else.
/// - It answers promptly once the session of a request is lost; it ends a session whose state it does not know.
/// - A session past its deadline is never used again: the driver ends it.
/// - When it is dropped, its sessions end and are lost.
pub trait Driver: Send + Sync + 'static {
    /// One lock at the backend.
    type Grant: Grant;

    /// Whether its locks exclude other hosts: a constant of the implementation.
    const DISTRIBUTED: bool;

    /// `Some`: there is no backend, every lock is granted at once in the caller's poll, and the cohort is all.
    fn without_backend(&self) -> Option<Self::Grant> {
        None
    }

    /// Takes the lock if it is free and nobody waits for it.
    fn try_lock(&self, scope: Scope, mode: Mode) -> impl Future<Output = Result<Option<Self::Grant>, Error>> + Send;

    /// Waits in the backend's line; called after a try answered `None`.
    ///
    /// `Ok(None)` only after `unwanted` was cancelled: nobody waits any more; nothing is held or queued then.
    fn lock(
        &self,
        scope: Scope,
        mode: Mode,
        unwanted: CancellationToken,
    ) -> impl Future<Output = Result<Option<Self::Grant>, Error>> + Send;

    /// Frees the lock; fails with `Lost` if the backend did not hold it any more.
    fn unlock(&self, scope: Scope, grant: Self::Grant) -> impl Future<Output = Result<(), Error>> + Send;

    /// Whether another instance waits for the lock that `grant` holds.
    fn contended(
        &self,
        scope: Scope,
        grant: Self::Grant,
        look: Look,
    ) -> impl Future<Output = Result<bool, Error>> + Send;

    /// An answer on the grant's session that was sent after this call: what was held on it was held until now.
    fn confirm(&self, grant: Self::Grant) -> impl Future<Output = Result<(), Error>> + Send;

    /// Asks the backend on the grant's session whether the lock is held, and renews the session's deadline.
    fn verify(&self, scope: Scope, grant: Self::Grant) -> impl Future<Output = Result<(), Error>> + Send;

    /// A new token, in one step of the backend that fails with `Lost` if the lock is not held.
    fn fence(&self, scope: Scope, grant: Self::Grant) -> impl Future<Output = Result<FencingToken, Error>> + Send;

    /// Who holds and who waits, other instances included; `own` is what this instance's queue knows.
    fn inspect(&self, scope: Scope, own: Inspection) -> impl Future<Output = Result<Inspection, Error>> + Send;

    /// Ends all sessions; whatever is held on them is lost with [`LossReason::ShutDown`](crate::LossReason::ShutDown).
    fn close(&self) -> impl Future<Output = ()> + Send;
}

/// A coordinator that is a [`Cohort`] under a name of its own; it gets
/// [`ErasureCoordinator`](crate::ErasureCoordinator) by this.
pub trait CohortBacked: Send + Sync + std::fmt::Debug {
    /// The driver under the cohort.
    type Driver: Driver;

    /// The cohort.
    fn cohort(&self) -> &Cohort<Self::Driver>;
}
