//! The smallest backend that is whole: a lock server, and a coordinator over it. `docs/write-a-backend.md` builds it.
//!
//! It spans instances and passes the conformance suite; what it does not have is durability: a server that is started
//! again has forgotten every lock and every token, so it is for learning and for tests.

mod coordinator;
mod driver;
mod error;
mod lock_table;
mod server;
mod session;
mod wire;

pub use coordinator::ToyCoordinator;
pub use driver::{ToyDriver, ToyGrant};
pub use server::{Server, end_sessions};

pub use coordinator_core::{Error, ErrorKind, Lease, Mode, Scope, under_lock};
