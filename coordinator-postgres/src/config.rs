use crate::connect::Connector;
use crate::coordinator::PostgresCoordinator;
use crate::driver::{Plan, PostgresDriver};
use crate::keys::Keyspace;
use crate::revocation::channel;
use crate::settings::Settings;
use crate::tls::{TlsMode, client_config};
use crate::url::SslParameters;
use coordinator_core::{Cohort, CohortOptions, DigestKey, Error, ErrorKind, Upkeep};
use rustls::client::ClientConfig;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::unbounded_channel;
use tokio_postgres::config::SslMode;

/// What an acquire does while the server is away.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum WhenUnavailable {
    /// It fails, within the connect time-out: the default.
    #[default]
    Fail,
    /// It waits until the server is back, or nobody waits for it any more. A try fails all the same.
    Wait,
}

/// How a [`PostgresCoordinator`] is configured; [`connect`](Self::connect) makes it.
#[derive(Clone)]
pub struct PostgresBuilder {
    config: tokio_postgres::Config,
    tls_mode: TlsMode,
    roots: Option<PathBuf>,
    tls: Option<ClientConfig>,
    instance: String,
    namespace: Option<String>,
    digest_key: Option<DigestKey>,
    dead_peer_timeout: Duration,
    release_when_silent_for: Option<Duration>,
    waiting_sessions: usize,
    most_scopes: Option<usize>,
    wait_for_room: Duration,
    when_unavailable: WhenUnavailable,
    fence_epoch: u16,
    upkeep: Upkeep,
}

impl PostgresBuilder {
    /// From `postgres://user@host/database?sslmode=…` or `host=… user=…`; hosts may be several, the primary is taken.
    ///
    /// `sslmode` is libpq's: `disable`, `prefer` (the default), `require`, `verify-ca`, `verify-full`, with
    /// `sslrootcert` naming a PEM file of trusted roots (else the platform's).
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a URL that can't be parsed; the URL is not repeated, it may hold a password.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let ssl = SslParameters::take(url);
        let config = ssl.rest.parse().map_err(|error: tokio_postgres::Error| {
            let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            Error::new(ErrorKind::Invalid, "connect", format!("the URL can't be parsed: {why}"))
        })?;
        let mut builder = Self::from_config(config);
        builder.tls_mode = ssl.mode;
        builder.roots = ssl.roots;
        Ok(builder)
    }

    /// From a configuration of tokio-postgres.
    pub fn from_config(config: tokio_postgres::Config) -> Self {
        Self {
            config,
            tls_mode: TlsMode::Unverified,
            roots: None,
            tls: None,
            instance: default_instance(),
            namespace: None,
            digest_key: None,
            dead_peer_timeout: Duration::from_secs(25),
            release_when_silent_for: None,
            waiting_sessions: 4,
            most_scopes: None,
            wait_for_room: Duration::from_secs(10),
            when_unavailable: WhenUnavailable::Fail,
            fence_epoch: 0,
            upkeep: Upkeep::Process,
        }
    }

    /// From the configuration of the store's pool; the sessions are this coordinator's own, never the pool's.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a configuration that is incomplete.
    pub fn from_deadpool(config: &deadpool_postgres::Config) -> Result<Self, Error> {
        let config = config.get_pg_config().map_err(|error| {
            Error::with_source(ErrorKind::Invalid, "connect", "the pool's configuration is incomplete", error)
        })?;
        Ok(Self::from_config(config))
    }

    /// The instance's name, which operators see as `application_name`: 1 to 42 printable ASCII characters.
    ///
    /// Default: host name and process id.
    pub fn instance(mut self, name: impl Into<String>) -> Self {
        self.instance = name.into();
        self
    }

    /// After this long an instance that vanished is dead to the server, and its scopes are free: 25 s by default, at
    /// least 4 s. It holds whatever state the link is cut in; leases are lost to their holders before.
    ///
    /// A frozen instance whose kernel still answers keeps its scopes: see
    /// [`release_when_silent_for`](Self::release_when_silent_for).
    pub fn dead_peer_timeout(mut self, timeout: Duration) -> Self {
        self.dead_peer_timeout = timeout;
        self
    }

    /// The server ends the instance's session after this long without a word: at least 3 s; off by default.
    ///
    /// A choice: with it a frozen instance loses its scopes, although a request that it sent (the destroy of a key)
    /// may still be under way. Without it a frozen instance keeps them. Behind a proxy that ends TCP itself it is the
    /// only bound.
    pub fn release_when_silent_for(mut self, silence: Duration) -> Self {
        self.release_when_silent_for = Some(silence);
        self
    }

    /// How many sessions wait at most for scopes that other instances hold: 4 by default, at least 1.
    ///
    /// More waiting scopes than sessions take turns.
    pub fn waiting_sessions(mut self, most: usize) -> Self {
        self.waiting_sessions = most;
        self
    }

    /// How many scopes the instance holds or waits for at most; a lock takes room in the server's lock table, which
    /// all its clients share.
    ///
    /// Default: the smaller of 1,000 and a tenth of the server's lock table.
    pub fn most_scopes(mut self, most: usize) -> Self {
        self.most_scopes = Some(most);
        self
    }

    /// How long a caller waits for room at the cap of scopes before it gets `Unavailable`: 10 s by default.
    pub fn wait_for_room(mut self, limit: Duration) -> Self {
        self.wait_for_room = limit;
        self
    }

    /// Separates deployments that share a database; all instances of one need the same.
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Keys the digests of scopes, so that names can't be guessed from the server's lock table or from logs.
    ///
    /// All instances need the same; instances of other schemes are then no longer excluded.
    pub fn digest_key(mut self, key: DigestKey) -> Self {
        self.digest_key = Some(key);
        self
    }

    /// What an acquire does while the server is away.
    pub fn when_unavailable(mut self, what: WhenUnavailable) -> Self {
        self.when_unavailable = what;
        self
    }

    /// How long opening a session may take: tokio-postgres' `connect_timeout`, else 5 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.config.connect_timeout(timeout);
        self
    }

    /// Is added to the timeline in fencing tokens: 0 by default.
    ///
    /// `pg_upgrade` resets the timeline: after one, raise this by the old cluster's timeline, so that tokens grow.
    pub fn fence_epoch(mut self, epoch: u16) -> Self {
        self.fence_epoch = epoch;
        self
    }

    /// How much of the server's certificate is checked; a URL's `sslmode` sets it too.
    pub fn tls_mode(mut self, mode: TlsMode) -> Self {
        self.tls_mode = mode;
        self
    }

    /// A TLS configuration of one's own, such as with client certificates; it replaces what `sslmode` would check.
    pub fn tls(mut self, config: ClientConfig) -> Self {
        self.tls = Some(config);
        self
    }

    /// Runs the sessions on a given runtime instead of the process-wide upkeep thread; see [`Upkeep::On`].
    pub fn runtime(mut self, handle: tokio::runtime::Handle) -> Self {
        self.upkeep = Upkeep::On(handle);
        self
    }

    /// Opens the instance's sessions and proves that they can be the lock's.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`], with the remedy, for a pooler, a standby, a server before PostgreSQL 14, a setting that
    /// the server does not take, an option out of range; [`ErrorKind::Unavailable`] for a server that is away.
    ///
    /// # Cancel safety
    /// May be dropped at any time; the sessions are closed.
    pub async fn connect(self) -> Result<PostgresCoordinator, Error> {
        self.check()?;
        let mut config = self.config;
        let keyspace = Keyspace::new(self.namespace);
        let fingerprint = keyspace.fingerprint(self.digest_key.as_ref());
        config.application_name(format!("coordinator {fingerprint} {}", self.instance));
        if self.tls_mode != TlsMode::Unverified {
            config.ssl_mode(SslMode::Require);
        }
        let tls = match self.tls {
            Some(tls) => tls,
            None => client_config(self.tls_mode, self.roots.as_deref())?,
        };
        let timeout = config.get_connect_timeout().copied().unwrap_or(Duration::from_secs(5));
        let (revoked, heeded) = unbounded_channel();
        let connector = Arc::new(Connector { config, tls, timeout, upkeep: self.upkeep.clone(), revoked });
        let plan = Plan {
            connector,
            holding: Settings::holding(self.dead_peer_timeout, self.release_when_silent_for),
            waiting_sessions: self.waiting_sessions,
            outlast_outages: self.when_unavailable == WhenUnavailable::Wait,
            keyspace,
            channel: channel(&fingerprint),
            instance: self.instance.clone(),
            fence_epoch: self.fence_epoch,
        };
        let connecting = self.upkeep.spawn(PostgresDriver::connect(plan));
        let ended = |error| Error::with_source(ErrorKind::Unavailable, "connect", "the attempt was ended", error);
        let (driver, lock_table) = connecting.await.map_err(ended)??;
        driver.warn_of_strangers(&fingerprint).await;
        let mut options = CohortOptions::default();
        options.most_scopes = Some(self.most_scopes.unwrap_or_else(|| 1_000.min(lock_table / 10).max(1)));
        options.wait_for_room = self.wait_for_room;
        options.outlast_outages = self.when_unavailable == WhenUnavailable::Wait;
        options.digest_key = self.digest_key;
        options.upkeep = self.upkeep;
        let cohort = Cohort::new(driver, options);
        cohort.heed(heeded);
        Ok(PostgresCoordinator::new(cohort, self.instance))
    }

    fn check(&self) -> Result<(), Error> {
        let invalid = |why: &str| Err(Error::new(ErrorKind::Invalid, "connect", why));
        if self.dead_peer_timeout < Duration::from_secs(4) {
            return invalid("dead_peer_timeout is at least 4 s: the kernel's timers are coarser below");
        }
        if self.release_when_silent_for.is_some_and(|silence| silence < Duration::from_secs(3)) {
            return invalid("release_when_silent_for is at least 3 s: less would end a session that is only slow");
        }
        let longest = Duration::from_secs(24 * 60 * 60);
        if self.dead_peer_timeout > longest || self.release_when_silent_for.is_some_and(|silence| silence > longest) {
            return invalid("dead_peer_timeout and release_when_silent_for are at most 24 h: kernels take no more");
        }
        if self.waiting_sessions == 0 {
            return invalid("waiting_sessions is at least 1: without one nobody could wait for another instance");
        }
        if self.most_scopes == Some(0) {
            return invalid("most_scopes is at least 1");
        }
        let printable = self.instance.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if self.instance.is_empty() || self.instance.len() > 42 || !printable {
            return invalid("an instance's name has 1 to 42 printable ASCII characters");
        }
        Ok(())
    }
}

impl std::fmt::Debug for PostgresBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresBuilder").field("instance", &self.instance).finish_non_exhaustive()
    }
}

fn default_instance() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host: String = host.chars().filter(char::is_ascii_graphic).take(30).collect();
    format!("{host}-{}", std::process::id())
}
