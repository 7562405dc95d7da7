//! [`RedisCoordinator`]: a lock per scope that spans instances, on Redis.
//!
//! # How it holds
//!
//! An instance has one session at the server: a key with a time to live, renewed from the upkeep thread. A scope is one
//! key whose value is the line of who holds it and who waits for it. A holder lives exactly as long as its session's key
//! does, so one renewal keeps all scopes of the instance, and all of them are free when the instance is dead: at most
//! the time to live after its last renewal. Each operation is one script and one round trip.
//!
//! A waiter keeps its place for as long as its session is renewed every few seconds, however long it waits; one that is
//! dead, frozen or cut off is skipped. A wake is a push that only asks the waiter to come for the scope: nothing is lost
//! when it is lost.
//!
//! # What Redis can't promise
//!
//! - **Failover.** Replication is asynchronous: a replica that is promoted may lack the latest leases, and two holders
//!   then believe for as long as the first one's lease lasts. [`RedisBuilder::wait_for_replicas`] makes that less likely,
//!   `min-replicas-to-write` at the server too. **Only the fencing token protects**: check it where the effect lands
//!   ([`FencingGate`]). Tokens never fall behind the server's clock, so that they grow also where the counter was lost.
//! - **The wall clock.** The server ends keys by its wall clock: a step forward ends leases early, a step back keeps dead
//!   ones for longer. Let the servers' clocks be slewed, not stepped.
//! - **Memory.** A server that evicts keys drops live locks; it is refused.
//! - **Crashes.** Without an append-only file a restart forgets all leases: their holders are told when they are
//!   connected again. With `appendfsync everysec` a power cut forgets the last second.
//!
//! Where that is not good enough, `coordinator-postgres` and `coordinator-etcd` promise more.

mod books;
mod check;
mod config;
mod connect;
mod coordinator;
mod driver;
mod error;
mod grant;
mod inspection;
mod keeper;
mod keys;
mod link;
mod scripts;
mod session;
mod sessions;
mod times;
mod tls;
mod wakes;

pub use config::{RedisBuilder, WhenUnavailable};
pub use coordinator::RedisCoordinator;
pub use coordinator_core::{
    DigestKey, Distributed, DistributedCoordinator, ErasureCoordinator, ErasureCoordinatorExt, Error, ErrorKind,
    FencingGate, FencingToken, Inspection, Lease, Leases, LossReason, Mode, NotDistributed, Party, Scope, Shutdown,
    under_lock,
};

// What the configuration takes.
pub use rustls;
