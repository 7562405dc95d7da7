use crate::connect::{Connector, Server};
use crate::coordinator::RedisCoordinator;
use crate::driver::RedisDriver;
use crate::keys::Keyspace;
use crate::session::Plan;
use crate::times::Times;
use crate::tls::client_config;
use crate::wakes::Wakes;
use coordinator_core::{Cohort, CohortOptions, DigestKey, Error, ErrorKind, Upkeep};
use rustls::client::ClientConfig;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::mpsc::unbounded_channel;

/// What an acquire does while the server is away.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenUnavailable {
    /// It fails, within the connect time-out after the loss of the connection was noticed: the default.
    #[default]
    Fail,
    /// It waits until the server is back, or nobody waits for it any more. A try fails all the same.
    Wait,
}

/// How a [`RedisCoordinator`] is configured; [`connect`](Self::connect) makes it.
#[derive(Clone)]
pub struct RedisBuilder {
    servers: Vec<Server>,
    roots: Option<PathBuf>,
    tls: Option<ClientConfig>,
    instance: String,
    namespace: String,
    digest_key: Option<DigestKey>,
    time_to_live: Duration,
    connect_timeout: Duration,
    most_scopes: usize,
    wait_for_room: Duration,
    when_unavailable: WhenUnavailable,
    require_durability: bool,
    replicas: Option<(usize, Duration)>,
    upkeep: Upkeep,
}

impl RedisBuilder {
    /// From `redis://user:password@host:6379/0`, `rediss://…` for TLS, `redis+unix:///path`; several with commas between.
    ///
    /// Of several servers the one that is the primary is taken, now and after each loss of the connection. The database
    /// is part of the lock: all instances need the same.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a URL that can't be parsed; the URL is not repeated, it may hold a password.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let servers = url.split(',').map(|url| Server::from_url(url.trim())).collect::<Result<_, _>>()?;
        Ok(Self {
            servers,
            roots: None,
            tls: None,
            instance: default_instance(),
            namespace: String::new(),
            digest_key: None,
            time_to_live: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            most_scopes: 10_000,
            wait_for_room: Duration::from_secs(10),
            when_unavailable: WhenUnavailable::Fail,
            require_durability: false,
            replicas: None,
            upkeep: Upkeep::Process,
        })
    }

    /// The instance's name, which others see in an inspection: 1 to 64 printable ASCII characters.
    ///
    /// Default: host name and process id.
    pub fn instance(mut self, name: impl Into<String>) -> Self {
        self.instance = name.into();
        self
    }

    /// After this long without a renewal the instance's scopes are free: 30 s by default, 1 s to 5 min.
    ///
    /// It is renewed several times as often. Leases are lost to their holders a tenth earlier, whatever the network does.
    pub fn time_to_live(mut self, time_to_live: Duration) -> Self {
        self.time_to_live = time_to_live;
        self
    }

    /// How many scopes the instance holds or waits for at most: 10,000 by default.
    pub fn most_scopes(mut self, most: usize) -> Self {
        self.most_scopes = most;
        self
    }

    /// How long a caller waits for room at the cap of scopes before it gets `Unavailable`: 10 s by default.
    pub fn wait_for_room(mut self, limit: Duration) -> Self {
        self.wait_for_room = limit;
        self
    }

    /// Separates deployments that share a server; all instances of one need the same.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Keys the digests of scopes, so that names can't be guessed from the server's keys or from logs.
    ///
    /// All instances need the same; those with another one are not excluded.
    pub fn digest_key(mut self, key: DigestKey) -> Self {
        self.digest_key = Some(key);
        self
    }

    /// What an acquire does while the server is away.
    pub fn when_unavailable(mut self, what: WhenUnavailable) -> Self {
        self.when_unavailable = what;
        self
    }

    /// How long opening a connection, or waiting for one, may take: 5 s by default, at least 0.1 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Refuses a server without an append-only file: by default it is only warned about.
    ///
    /// Without one a restart of the server forgets every lease, and others may hold the scopes before that is noticed.
    pub fn require_durability(mut self) -> Self {
        self.require_durability = true;
        self
    }

    /// A lease, and a fencing token, counts only once this many replicas have it, asked by `WAIT` for up to `limit`.
    ///
    /// The strictest that Redis gives, and still no promise: a failover may prefer a replica that lacks it. It costs a
    /// second round trip, and whatever else this instance asks waits behind it.
    pub fn wait_for_replicas(mut self, replicas: usize, limit: Duration) -> Self {
        self.replicas = Some((replicas, limit));
        self
    }

    /// The authorities whose certificates are trusted, as a PEM file; the platform's by default.
    pub fn trusted_roots(mut self, file: impl Into<PathBuf>) -> Self {
        self.roots = Some(file.into());
        self
    }

    /// A TLS configuration of one's own, such as with client certificates.
    pub fn tls(mut self, config: ClientConfig) -> Self {
        self.tls = Some(config);
        self
    }

    /// Runs the session on a given runtime instead of the process-wide upkeep thread; see [`Upkeep::On`].
    pub fn runtime(mut self, handle: tokio::runtime::Handle) -> Self {
        self.upkeep = Upkeep::On(handle);
        self
    }

    /// Begins the instance's session and proves that the server can keep the lock.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`], with the remedy, for a replica, a server that evicts keys, Redis before 6.2, missing
    /// rights, an option out of range; [`ErrorKind::Unavailable`] for a server that is away.
    ///
    /// # Cancel safety
    /// May be dropped at any time; the session ends.
    pub async fn connect(self) -> Result<RedisCoordinator, Error> {
        self.check()?;
        let is_encrypted = self.servers.iter().any(Server::is_encrypted);
        let tls = match self.tls {
            None if is_encrypted => Some(client_config(self.roots.as_deref())?),
            tls => tls,
        };
        let keys = Keyspace::new(&self.namespace, self.digest_key.as_ref());
        let prefix = keys.prefix().to_owned();
        let (revoked, heeded) = unbounded_channel();
        let connector = Connector {
            servers: self.servers,
            tls: tls.map(Arc::new),
            timeout: self.connect_timeout,
            require_durability: self.require_durability,
            warned: OnceLock::new(),
            upkeep: self.upkeep.clone(),
        };
        let plan = Plan {
            connector,
            wakes: Arc::new(Wakes::new(&keys, revoked)),
            keys,
            instance: self.instance.clone(),
            times: Times { time_to_live: self.time_to_live, connect: self.connect_timeout },
            replicas: self.replicas,
        };
        let connecting = self.upkeep.spawn(RedisDriver::connect(plan, self.when_unavailable == WhenUnavailable::Wait));
        let ended = |error| Error::with_source(ErrorKind::Unavailable, "connect", "the attempt was ended", error);
        let driver = connecting.await.map_err(ended)??;
        let mut options = CohortOptions::default();
        options.most_scopes = Some(self.most_scopes);
        options.wait_for_room = self.wait_for_room;
        options.outlast_outages = self.when_unavailable == WhenUnavailable::Wait;
        options.digest_key = self.digest_key;
        options.upkeep = self.upkeep;
        let cohort = Cohort::new(driver, options);
        cohort.heed(heeded);
        Ok(RedisCoordinator::new(cohort, self.instance, prefix))
    }

    fn check(&self) -> Result<(), Error> {
        let invalid = |why: &str| Err(Error::new(ErrorKind::Invalid, "connect", why));
        if !(Times::SHORTEST..=Times::LONGEST).contains(&self.time_to_live) {
            return invalid("time_to_live is 1 s to 5 min: less leaves no room for a slow answer, more strands scopes");
        }
        if self.connect_timeout < Duration::from_millis(100) {
            return invalid("connect_timeout is at least 0.1 s");
        }
        if self.most_scopes == 0 {
            return invalid("most_scopes is at least 1");
        }
        if self.replicas.is_some_and(|(_, limit)| limit.is_zero() || limit > Duration::from_secs(1)) {
            return invalid("one waits for replicas for at most 1 s, and for some time: renewals wait behind it");
        }
        let printable = self.instance.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if self.instance.is_empty() || self.instance.len() > 64 || !printable {
            return invalid("an instance's name has 1 to 64 printable ASCII characters");
        }
        Ok(())
    }
}

impl std::fmt::Debug for RedisBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisBuilder").field("instance", &self.instance).finish_non_exhaustive()
    }
}

fn default_instance() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host: String = host.chars().filter(char::is_ascii_graphic).take(50).collect();
    format!("{host}-{}", std::process::id())
}
