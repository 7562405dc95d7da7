//! The links between an instance and all servers that its variables name.

use super::{Fault, Framing, Proxy, Side, Trap};
use futures_util::future::select_all;
use std::collections::BTreeMap;
use std::time::Duration;

/// One proxy per server, that are broken together.
pub(crate) struct Link {
    proxies: Vec<Proxy>,
    vars: Vec<(String, String)>,
}

impl Link {
    pub(crate) async fn to(servers: &BTreeMap<String, String>, framing: Framing) -> Self {
        let (mut proxies, mut vars) = (Vec::new(), Vec::new());
        for (name, url) in servers {
            let mut through = url.clone();
            for place in places(url) {
                let proxy = Proxy::to(&place, framing).await;
                through = through.replacen(&place, &proxy.place(), 1);
                proxies.push(proxy);
            }
            vars.push((name.clone(), through));
        }
        assert!(!proxies.is_empty(), "no host:port in the URLs of {:?}", servers.keys().collect::<Vec<_>>());
        Self { proxies, vars }
    }

    /// The servers' variables, by this link.
    pub(crate) fn vars(&self) -> Vec<(String, String)> {
        self.vars.clone()
    }

    pub(crate) fn cut(&self) {
        self.proxies.iter().for_each(Proxy::cut);
    }

    /// Whether messages of the instances, and of the servers, stay where they are.
    pub(crate) fn silence(&self, of_instances: bool, of_servers: bool) {
        self.proxies.iter().for_each(|proxy| proxy.silence(of_instances, of_servers));
    }

    pub(crate) fn delay(&self, replies: Duration) {
        self.proxies.iter().for_each(|proxy| proxy.delay(replies));
    }

    /// The same fault for the message of that number at each server.
    pub(crate) fn set(&self, fault: Fault, of: Option<Side>, after: usize) {
        self.proxies.iter().for_each(|proxy| proxy.set(Trap { fault, of, after }));
    }

    /// No trap and no silence any more; whether a trap had met its message.
    pub(crate) fn heal(&self) -> bool {
        // Each of them: `any` would stop at the first.
        self.proxies.iter().filter(|proxy| proxy.heal()).count() > 0
    }

    /// Resolves when a trap has met its message.
    pub(crate) async fn trapped(&self) {
        select_all(self.proxies.iter().map(|proxy| Box::pin(proxy.trapped()))).await;
    }
}

/// Each `host:port` of a URL, or of several with commas in between.
fn places(url: &str) -> Vec<String> {
    let authority = |part: &str| {
        let part = part.split_once("://").map_or(part, |(_, rest)| rest);
        let part = part.split(['/', '?']).next().unwrap_or_default();
        part.rsplit_once('@').map_or(part, |(_, place)| place).to_owned()
    };
    let is_place = |place: &String| place.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    url.split(',').map(authority).filter(is_place).collect()
}

#[cfg(test)]
mod tests {
    use super::places;

    #[test]
    fn every_server_of_a_url_is_found() {
        for (url, expected) in [
            ("postgres://user:pass@127.0.0.1:5432/db?x=y", vec!["127.0.0.1:5432"]),
            ("postgres://user@a:1,b:2/db", vec!["a:1", "b:2"]),
            ("redis://127.0.0.1:6379", vec!["127.0.0.1:6379"]),
            ("redis://:word@h:1/0,redis://h:2", vec!["h:1", "h:2"]),
            ("http://[::1]:2379,http://[::1]:2380", vec!["[::1]:2379", "[::1]:2380"]),
            ("file:///tmp/locks", vec![]),
            ("postgres://host/db", vec![]),
        ] {
            assert_eq!(places(url), expected, "{url}");
        }
    }
}
