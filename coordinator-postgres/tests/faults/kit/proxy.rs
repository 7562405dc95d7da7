//! A link to the server that can be cut, silenced or slowed at each message.

use super::environment::{at, place, with};
use super::framing::POSTGRES;
pub(crate) use coordinator_testkit::faults::{Fault, Proxy, Side, Trap};

/// A link to the server of this URL.
pub(crate) async fn link_to(url: &str) -> Proxy {
    Proxy::to(place(url), POSTGRES).await
}

/// The way to the server by this link; not encrypted, else its messages could not be told apart.
pub(crate) fn way(proxy: &Proxy, url: &str) -> String {
    with(&at(url, &proxy.place()), "sslmode=disable")
}
