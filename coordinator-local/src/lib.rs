//! A per-scope lock for one process: [`LocalCoordinator`].
//!
//! It does not span hosts, and a plane beside a store that several hosts share refuses it: see [`Distributed`].

mod local_coordinator;

pub use coordinator_core::{
    Distributed, DistributedCoordinator, ErasureCoordinator, ErasureCoordinatorExt, Error, ErrorKind, FencingGate,
    FencingToken, Inspection, Lease, Leases, Left, LossReason, Mode, NotDistributed, Party, Scope, Shutdown,
    under_lock,
};
pub use local_coordinator::LocalCoordinator;
