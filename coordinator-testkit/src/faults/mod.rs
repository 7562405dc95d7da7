//! What breaks a link between an instance and its server.

mod link;
mod proxy;

pub(crate) use link::Link;
pub use proxy::{Fault, Framing, Proxy, Side, Trap};
