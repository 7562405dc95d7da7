//! What the tests break things with.

pub(crate) mod agent;
pub(crate) mod belief;
pub(crate) mod environment;
#[path = "../../support/framing.rs"]
pub(crate) mod framing;
pub(crate) mod instance;
pub(crate) mod pgbouncer;
pub(crate) mod proxy;
#[path = "../../support/server.rs"]
pub(crate) mod server;
pub(crate) mod warnings;
