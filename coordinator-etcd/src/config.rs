use crate::coordinator::EtcdCoordinator;
use crate::driver::EtcdDriver;
use crate::keys::Keyspace;
use crate::servers::Servers;
use crate::session::Plan;
use crate::watcher::Watcher;
use coordinator_core::{Cohort, CohortOptions, DigestKey, Error, ErrorKind, Upkeep};
use etcd_client::{ConnectOptions, TlsOptions};
use std::time::Duration;

/// What an acquire does while the servers are away.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenUnavailable {
    /// It fails, within the connect time-out and some seconds: the default.
    #[default]
    Fail,
    /// It waits until a server is back, or nobody waits for it any more. A try fails all the same.
    Wait,
}

/// How an [`EtcdCoordinator`] is configured; [`connect`](Self::connect) makes it.
#[derive(Clone)]
pub struct EtcdBuilder {
    endpoints: Vec<String>,
    user: Option<(String, String)>,
    tls: Option<TlsOptions>,
    instance: String,
    namespace: String,
    digest_key: Option<DigestKey>,
    ttl: Duration,
    connect_timeout: Duration,
    most_scopes: usize,
    wait_for_room: Duration,
    when_unavailable: WhenUnavailable,
    fence_epoch: u16,
    upkeep: Upkeep,
}

impl EtcdBuilder {
    /// From `http://host:port` or `https://host:port`, several with commas in between: the members of one cluster.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for what is no such list; it is not repeated, it may hold a password.
    pub fn from_endpoints(endpoints: &str) -> Result<Self, Error> {
        let endpoints: Vec<_> = endpoints.split(',').map(|one| one.trim().to_owned()).collect();
        let is_endpoint = |one: &String| {
            let rest = one.strip_prefix("http://").or_else(|| one.strip_prefix("https://"));
            rest.is_some_and(|rest| !rest.is_empty() && !rest.contains('@'))
        };
        if !endpoints.iter().all(is_endpoint) {
            let message = "endpoints are http://host:port or https://host:port, with commas in between; a user's name and \
                password are given by `user`";
            return Err(Error::new(ErrorKind::Invalid, "connect", message));
        }
        Ok(Self {
            endpoints,
            user: None,
            tls: None,
            instance: default_instance(),
            namespace: "coordinator".into(),
            digest_key: None,
            ttl: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            most_scopes: 10_000,
            wait_for_room: Duration::from_secs(10),
            when_unavailable: WhenUnavailable::Fail,
            fence_epoch: 0,
            upkeep: Upkeep::Process,
        })
    }

    /// The instance's name, which operators see as the value of its keys: 1 to 64 printable ASCII characters.
    ///
    /// Default: host name and process id.
    pub fn instance(mut self, name: impl Into<String>) -> Self {
        self.instance = name.into();
        self
    }

    /// The user of a cluster that asks for one; it needs to read and write the keys of the namespace.
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some((name.into(), password.into()));
        self
    }

    /// Authorities to trust, and the client's own certificate, for `https` endpoints. Default: the platform's roots.
    pub fn tls(mut self, options: TlsOptions) -> Self {
        self.tls = Some(options);
        self
    }

    /// After this long a silent instance is dead to the server, and its scopes are free: 30 s by default, at least 5 s
    /// (an election takes two, and a renewal has to succeed after it). Counted in whole seconds.
    ///
    /// Leases are lost to their holders a tenth of it before. A frozen instance loses its scopes, although a request that
    /// it sent (the destroy of a key) may still be under way.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// What all keys of the deployment begin with: `coordinator` by default. Instances of one namespace exclude each
    /// other, those of two do not.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Keys the digests of scopes, so that names can't be guessed from the server's keys or from logs.
    ///
    /// All instances need the same.
    pub fn digest_key(mut self, key: DigestKey) -> Self {
        self.digest_key = Some(key);
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

    /// What an acquire does while the servers are away.
    pub fn when_unavailable(mut self, what: WhenUnavailable) -> Self {
        self.when_unavailable = what;
        self
    }

    /// How long it may take to reach a server and to get a lease from it: 5 s by default.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// The upper 16 bits of fencing tokens: 0 by default.
    ///
    /// A cluster that was restored from a backup has lower revisions than before: raise this by one then, so that tokens
    /// grow.
    pub fn fence_epoch(mut self, epoch: u16) -> Self {
        self.fence_epoch = epoch;
        self
    }

    /// Runs the session on a given runtime instead of the process-wide upkeep thread; see [`Upkeep::On`].
    pub fn runtime(mut self, handle: tokio::runtime::Handle) -> Self {
        self.upkeep = Upkeep::On(handle);
        self
    }

    /// Reaches the servers, gets a lease and proves that these can be the lock's servers.
    ///
    /// Of several endpoints one has to answer; a server that comes later is looked at then.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`], with the remedy, for a server before etcd 3.4, endpoints of different clusters, a user
    /// that is refused, an option out of range; [`ErrorKind::Unavailable`] for servers that are away or have no leader.
    ///
    /// # Cancel safety
    /// May be dropped at any time; the lease at the server is revoked.
    pub async fn connect(self) -> Result<EtcdCoordinator, Error> {
        self.check()?;
        let keyspace = Keyspace::new(&self.namespace)?;
        let servers = Servers::new(self.endpoints.clone(), self.options());
        let (upkeep, outlast_outages) = (self.upkeep.clone(), self.when_unavailable == WhenUnavailable::Wait);
        let plan = Plan {
            watcher: Watcher::start(servers.clone(), &upkeep),
            servers,
            keyspace,
            instance: self.instance,
            ttl: self.ttl,
            connect_timeout: self.connect_timeout,
            upkeep: upkeep.clone(),
        };
        let connecting = upkeep.spawn(EtcdDriver::connect(plan, outlast_outages, self.fence_epoch));
        let ended = |error| Error::with_source(ErrorKind::Unavailable, "connect", "the attempt was ended", error);
        let (driver, revoked) = connecting.await.map_err(ended)??;
        let mut options = CohortOptions::default();
        options.most_scopes = Some(self.most_scopes);
        options.wait_for_room = self.wait_for_room;
        options.outlast_outages = outlast_outages;
        options.digest_key = self.digest_key;
        options.upkeep = upkeep;
        let cohort = Cohort::new(driver, options);
        cohort.heed(revoked);
        Ok(EtcdCoordinator::new(cohort))
    }

    fn options(&self) -> ConnectOptions {
        let mut options = ConnectOptions::new()
            // A server that is cut off from the others must not keep us waiting.
            .with_require_leader(true)
            .with_auto_token_refresh(true)
            .with_connect_timeout(self.connect_timeout)
            // Not more often than servers take it (their `grpc-keepalive-min-time` is 5 s).
            .with_keep_alive(Duration::from_secs(10), Duration::from_secs(5));
        if let Some((name, password)) = &self.user {
            options = options.with_user(name, password);
        }
        if self.endpoints.iter().any(|endpoint| endpoint.starts_with("https://")) {
            options = options.with_tls(self.tls.clone().unwrap_or_else(|| TlsOptions::new().with_native_roots()));
        }
        options
    }

    fn check(&self) -> Result<(), Error> {
        let invalid = |why: &str| Err(Error::new(ErrorKind::Invalid, "connect", why));
        if !(Duration::from_secs(5)..=Duration::from_secs(24 * 60 * 60)).contains(&self.ttl) {
            return invalid("ttl is at least 5 s, since an election of the servers takes two, and at most 24 h");
        }
        let encrypted = self.endpoints.iter().filter(|endpoint| endpoint.starts_with("https://")).count();
        if encrypted != 0 && encrypted != self.endpoints.len() {
            return invalid("endpoints are all https, or all http");
        }
        if self.tls.is_some() && encrypted == 0 {
            return invalid("TLS options are for https endpoints: these are http");
        }
        if self.most_scopes == 0 {
            return invalid("most_scopes is at least 1");
        }
        let is_printable = self.instance.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if self.instance.is_empty() || self.instance.len() > 64 || !is_printable {
            return invalid("an instance's name has 1 to 64 printable ASCII characters");
        }
        Ok(())
    }
}

impl std::fmt::Debug for EtcdBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdBuilder").field("instance", &self.instance).finish_non_exhaustive()
    }
}

fn default_instance() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host: String = host.chars().filter(char::is_ascii_graphic).take(40).collect();
    format!("{host}-{}", std::process::id())
}
