use crate::check::judge;
use crate::error::classify;
use crate::scripts::Scripts;
use coordinator_core::{Error, ErrorKind, Upkeep};
use redis::aio::{AsyncPushSender, MultiplexedConnection};
use redis::{AsyncConnectionConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, ProtocolVersion};
use rustls::client::ClientConfig;
use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_util::task::AbortOnDropHandle;

/// A server that may be the primary.
#[derive(Clone)]
pub(crate) struct Server {
    info: ConnectionInfo,
    is_encrypted: bool,
}

/// Where and how to connect; the sockets are opened here, so that their options and the TLS provider are known.
pub(crate) struct Connector {
    pub(crate) servers: Vec<Server>,
    /// There if one of the servers is to be reached over TLS.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    pub(crate) timeout: Duration,
    pub(crate) require_durability: bool,
    /// That the server is not durable was said.
    pub(crate) warned: OnceLock<()>,
    pub(crate) upkeep: Upkeep,
}

/// A connection to a server that was found good; dropping it closes the socket.
pub(crate) struct Connected {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) driver: AbortOnDropHandle<()>,
    pub(crate) scripts: Scripts,
}

/// How many requests may stand between the callers and the socket before callers wait.
const QUEUE: usize = 1024;

impl Server {
    /// The URL is not repeated in an error: it may hold a password.
    pub(crate) fn from_url(url: &str) -> Result<Self, Error> {
        let (plain, is_encrypted) = match url.strip_prefix("rediss://") {
            Some(rest) => (format!("redis://{rest}"), true),
            None => (url.to_owned(), false),
        };
        let info = plain.into_connection_info().map_err(|error| {
            let message = "a URL can't be parsed: it looks like redis://user:password@host:6379/0, or rediss://";
            Error::with_source(ErrorKind::Invalid, "connect", message, error)
        })?;
        let settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        Ok(Self { info: info.set_redis_settings(settings), is_encrypted })
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }
}

impl Connector {
    /// Opens a connection to the first server of the list that can be the lock's; what it pushes goes to `pushes`.
    ///
    /// # Errors
    /// `Invalid` if none of the servers can ever be, `Unavailable` if one of them may later.
    pub(crate) async fn connect(&self, pushes: impl AsyncPushSender + Clone) -> Result<Connected, Error> {
        let mut failure: Option<Error> = None;
        for server in &self.servers {
            let limit = tokio::time::timeout(self.timeout, self.connect_to(server, pushes.clone()));
            let late = || Error::new(ErrorKind::Unavailable, "connect", format!("no answer within {:?}", self.timeout));
            match limit.await.unwrap_or_else(|_| Err(late())) {
                Ok(connected) => return Ok(connected),
                Err(error) if failure.as_ref().is_none_or(|failure| !failure.is_retryable()) => failure = Some(error),
                Err(_) => {}
            }
        }
        Err(failure.unwrap_or_else(|| Error::new(ErrorKind::Invalid, "connect", "the configuration names no server")))
    }

    async fn connect_to(&self, server: &Server, pushes: impl AsyncPushSender) -> Result<Connected, Error> {
        match server.info.addr() {
            ConnectionAddr::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(unreachable)?;
                self.check(server, stream, pushes).await
            }
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                let stream = self.tcp(host, *port).await?;
                if !server.is_encrypted {
                    return self.check(server, stream, pushes).await;
                }
                let Some(tls) = &self.tls else {
                    return Err(Error::new(ErrorKind::Invalid, "connect", "TLS is not configured"));
                };
                let name = ServerName::try_from(host.clone()).map_err(|error| {
                    Error::with_source(ErrorKind::Invalid, "connect", "the host's name can't be used for TLS", error)
                })?;
                let secured = TlsConnector::from(Arc::clone(tls)).connect(name, stream).await;
                self.check(server, secured.map_err(insecure)?, pushes).await
            }
            _ => Err(Error::new(ErrorKind::Invalid, "connect", "this kind of address is not known")),
        }
    }

    /// With the client's half of the settings: its kernel must notice a dead server, also with a request in flight.
    async fn tcp(&self, host: &str, port: u16) -> Result<TcpStream, Error> {
        let stream = TcpStream::connect((host, port)).await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let (socket, interval) = (SockRef::from(&stream), self.timeout.max(Duration::from_secs(1)));
        let keepalive = TcpKeepalive::new().with_time(interval).with_interval(interval);
        socket.set_tcp_keepalive(&keepalive).map_err(unreachable)?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        socket.set_tcp_user_timeout(Some(self.timeout)).map_err(unreachable)?;
        Ok(stream)
    }

    async fn check<S>(&self, server: &Server, stream: S, pushes: impl AsyncPushSender) -> Result<Connected, Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // Who asks has a limit of its own; one of the connection's would leave a request's outcome open.
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_pipeline_buffer_size(QUEUE)
            .set_push_sender(pushes);
        let failed = |error| classify("connect", error);
        let opened = MultiplexedConnection::new_with_config(server.info.redis_settings(), stream, config);
        let (mut connection, driver) = opened.await.map_err(failed)?;
        let driver = AbortOnDropHandle::new(self.upkeep.spawn(driver));
        let info: String = redis::cmd("INFO").query_async(&mut connection).await.map_err(failed)?;
        let findings = judge(&info)?;
        if !findings.is_durable {
            const FORGETS: &str =
                "the server keeps no append-only file: a restart forgets all leases. Set appendonly yes";
            if self.require_durability {
                return Err(Error::new(ErrorKind::Invalid, "connect", FORGETS));
            }
            if self.warned.set(()).is_ok() {
                tracing::warn!("{FORGETS}");
            }
        }
        let scripts = Scripts::load(&mut connection).await.map_err(failed)?;
        Ok(Connected { connection, driver, scripts })
    }
}

fn unreachable(error: std::io::Error) -> Error {
    Error::with_source(ErrorKind::Unavailable, "connect", "the server could not be reached", error)
}

fn insecure(error: std::io::Error) -> Error {
    let message =
        format!("the server could not be reached over TLS ({error}): check its certificate and the host name");
    Error::with_source(ErrorKind::Unavailable, "connect", message, error)
}
