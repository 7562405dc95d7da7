//! [`PostgresCoordinator`]: a lock per scope that spans instances, on PostgreSQL's advisory locks.
//!
//! One session of an instance, the primary, holds all its scopes and only ever *try*-locks; a few waiting sessions
//! wait for scopes that others hold. Losing the primary loses every lease of the instance, and tells them.

mod batch;
mod config;
mod connect;
mod coordinator;
mod driver;
mod error;
mod fence;
mod grant;
mod holding;
mod inspection;
mod keys;
mod primary;
mod revocation;
mod session;
mod settings;
mod sink;
mod tls;
mod turnstile;
mod url;
mod waiting;

pub use config::{PostgresBuilder, WhenUnavailable};
pub use coordinator::PostgresCoordinator;
pub use coordinator_core::{
    DigestKey, Distributed, DistributedCoordinator, ErasureCoordinator, ErasureCoordinatorExt, Error, ErrorKind,
    FencingGate, FencingToken, Inspection, Lease, Leases, LossReason, Mode, NotDistributed, Party, Scope, Shutdown,
    under_lock,
};
pub use sink::{CREATE_FENCE_TABLE, admit};
pub use tls::TlsMode;

// What the configuration takes.
pub use deadpool_postgres;
pub use tokio_postgres;
