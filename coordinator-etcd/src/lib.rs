//! [`EtcdCoordinator`]: a lock per scope that spans instances, on etcd.
//!
//! An instance has one lease at the server (a TTL), which its scopes share and which is renewed at a third of the TTL.
//! Whoever wants a scope puts a key of its own into the scope's line, with that lease; the order of creation is the
//! order of service. What an instance left behind goes with its lease: nothing of a scope stays once nobody uses it.
//!
//! **Losing the lease loses every scope of the instance**, and each is told: within milliseconds when the server ends
//! the lease over a healthy link, else at the client's own deadline, a tenth of the TTL before the server could give the
//! scopes away. A dead or frozen instance frees its scopes after the TTL, and up to a second of the server's own.
//!
//! ```no_run
//! use coordinator_etcd::{ErasureCoordinator, EtcdCoordinator, Mode, Scope};
//!
//! # async fn example() -> Result<(), coordinator_etcd::Error> {
//! let coordinator = EtcdCoordinator::connect("http://a:2379,http://b:2379,http://c:2379").await?;
//! let lease = coordinator.acquire(&Scope::new("subject-42")?, Mode::Exclusive).await?;
//! lease.ensure_live()?;
//! lease.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! What the server gets wrong: a leader that stood still for longer than a TTL (a disk that hung, a machine that was
//! paused) may, when it wakes, revoke leases that were renewed elsewhere, or renew leases that have ended (etcd issue
//! 15247). The first is told at once; against the second only fencing tokens protect. Later releases of 3.4 and of 3.5 have
//! the fix.
//!
//! Building this crate takes the `protoc` program (Debian's `protobuf-compiler`), which generates etcd's client.

mod config;
mod coordinator;
mod current;
mod driver;
mod error;
mod fence;
mod grant;
mod health;
mod inspection;
mod keys;
mod line;
mod proof;
mod renewal;
mod revocation;
mod servers;
mod session;
mod waiting;
mod watcher;

pub use config::{EtcdBuilder, WhenUnavailable};
pub use coordinator::EtcdCoordinator;
pub use coordinator_core::{
    DigestKey, Distributed, DistributedCoordinator, ErasureCoordinator, ErasureCoordinatorExt, Error, ErrorKind,
    FencingGate, FencingToken, Inspection, Lease, Leases, LossReason, Mode, NotDistributed, Party, Scope, Shutdown,
    under_lock,
};

// What the configuration takes, and what guards a transaction of the caller's.
pub use etcd_client;
