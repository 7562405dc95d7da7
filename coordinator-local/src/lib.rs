//! A per-scope lock for one process, [`LocalCoordinator`], or for the processes of one host, [`FileCoordinator`].
//!
//! Neither spans hosts, and a plane beside a store that several hosts share refuses both: see [`Distributed`].

mod local_coordinator;

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod error;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod fence_file;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod file_coordinator;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod file_driver;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod lock_file;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod offsets;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod pause;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod range_lock;
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod wait;

pub use coordinator_core::{
    CohortOptions, DigestKey, Distributed, DistributedCoordinator, ErasureCoordinator, ErasureCoordinatorExt, Error,
    ErrorKind, FencingGate, FencingToken, Inspection, Lease, Leases, Left, LossReason, Mode, NotDistributed, Party,
    Scope, Shutdown, Upkeep, under_lock,
};
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
pub use file_coordinator::FileCoordinator;
pub use local_coordinator::LocalCoordinator;
