//! The contract of a per-scope lock that makes erasure safe, and the cohort tier that backends stand on.
//!
//! Users depend on a backend crate, which re-exports what they need from here. Authors of backends implement
//! [`Driver`] and wrap a [`Cohort`], or implement [`ErasureCoordinator`] and [`Hold`] from nothing.

mod clock;
mod cohort;
mod coordinator;
mod distributed;
mod driver;
mod error;
mod fencing;
mod inspection;
mod lease;
mod leases;
mod scope;
mod session;
mod telemetry;
mod under_lock;
mod upkeep;

pub use clock::Moment;
pub use cohort::{Cohort, CohortOptions};
pub use coordinator::{ErasureCoordinator, ErasureCoordinatorExt, Left, Shutdown};
pub use distributed::{Distributed, DistributedCoordinator, NotDistributed};
pub use driver::{CohortBacked, Driver, Grant, Look};
pub use error::{Error, ErrorKind, LossReason};
pub use fencing::{FencingGate, FencingToken};
pub use inspection::{Inspection, Party};
pub use lease::{Hold, Lease};
pub use leases::Leases;
pub use scope::{DigestKey, Mode, Scope};
pub use session::Session;
pub use under_lock::under_lock;
pub use upkeep::Upkeep;

/// How a driver's wait learns that nobody wants the lock any more.
pub use tokio_util::sync::CancellationToken;
