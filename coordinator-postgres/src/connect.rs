use crate::error::{POOLER, classify};
use crate::revocation::drive;
use crate::settings::Settings;
use coordinator_core::{Error, ErrorKind, Scope, Upkeep};
use futures_util::future::BoxFuture;
use rustls::client::ClientConfig;
use socket2::{SockRef, TcpKeepalive};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc::UnboundedSender;
use tokio_postgres::config::Host;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{CancelToken, Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

/// Where and how to connect; the sockets are opened here, so that their addresses and options are known.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) config: Config,
    pub(crate) tls: ClientConfig,
    pub(crate) timeout: Duration,
    pub(crate) upkeep: Upkeep,
    /// Hears whose holders are to give up.
    pub(crate) revoked: UnboundedSender<Scope>,
}

/// One address of the server, so that a cancel goes to the backend's own server.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    Tcp { host: String, addr: SocketAddr },
    Unix(PathBuf),
}

/// A connection whose settings have not been looked at yet.
pub(crate) struct Raw {
    pub(crate) client: Client,
    pub(crate) connection: BoxFuture<'static, Result<(), tokio_postgres::Error>>,
    pub(crate) target: Target,
    /// This side's address; `None` over a unix socket.
    pub(crate) local: Option<SocketAddr>,
}

impl Connector {
    /// Every address of every host, in the order given.
    pub(crate) async fn targets(&self) -> Result<Vec<Target>, Error> {
        let (hosts, addrs) = (self.config.get_hosts(), self.config.get_hostaddrs());
        let port = |i: usize| {
            let ports = self.config.get_ports();
            ports.get(i).or(ports.first()).copied().unwrap_or(5432)
        };
        let mut targets = Vec::new();
        for i in 0..hosts.len().max(addrs.len()) {
            let name = match hosts.get(i) {
                Some(Host::Tcp(name)) => Some(name.clone()),
                Some(Host::Unix(directory)) => {
                    targets.push(Target::Unix(directory.join(format!(".s.PGSQL.{}", port(i)))));
                    continue;
                }
                None => None,
            };
            let resolved: Vec<SocketAddr> = match (addrs.get(i), &name) {
                (Some(addr), _) => vec![SocketAddr::new(*addr, port(i))],
                (None, Some(name)) => match tokio::net::lookup_host((name.as_str(), port(i))).await {
                    Ok(found) => found.collect(),
                    Err(error) => {
                        let message = "the server's name could not be resolved";
                        return Err(Error::with_source(ErrorKind::Unavailable, "connect", message, error));
                    }
                },
                (None, None) => Vec::new(),
            };
            let host = |addr: &SocketAddr| name.clone().unwrap_or_else(|| addr.ip().to_string());
            targets.extend(resolved.iter().map(|addr| Target::Tcp { host: host(addr), addr: *addr }));
        }
        if targets.is_empty() {
            let message = "the configuration names no server: give a host";
            return Err(Error::new(ErrorKind::Invalid, "connect", message));
        }
        Ok(targets)
    }

    pub(crate) async fn connect(&self, target: Target, settings: &Settings, nonce: &str) -> Result<Raw, Error> {
        let mut config = self.config.clone();
        let own = config.get_options().unwrap_or_default();
        config.options(format!("{own} {} -c coordinator.nonce={nonce}", settings.startup_options()).trim().to_owned());
        if let Target::Unix(_) = target {
            config.ssl_mode(tokio_postgres::config::SslMode::Disable); // as libpq: there is no link to protect
        }
        let late = || Error::new(ErrorKind::Unavailable, "connect", format!("no answer within {:?}", self.timeout));
        let limit = self.upkeep.sleep(self.timeout);
        tokio::select! {
            biased;
            raw = self.raw(&config, target, settings) => raw,
            () = limit => Err(late()),
        }
    }

    async fn raw(&self, config: &Config, target: Target, settings: &Settings) -> Result<Raw, Error> {
        match &target {
            Target::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(unreachable)?;
                let (client, connection) = config.connect_raw(stream, tokio_postgres::NoTls).await.map_err(refused)?;
                let connection = Box::pin(drive(connection, self.revoked.clone()));
                Ok(Raw { client, connection, target, local: None })
            }
            Target::Tcp { host, addr } => {
                let stream = tcp(*addr, settings).await?;
                let local = stream.local_addr().ok();
                let (client, connection) =
                    config.connect_raw(stream, self.tls_for::<TcpStream>(host)?).await.map_err(refused)?;
                let connection = Box::pin(drive(connection, self.revoked.clone()));
                Ok(Raw { client, connection, target, local })
            }
        }
    }

    fn tls_for<S>(&self, host: &str) -> Result<<MakeRustlsConnect as MakeTlsConnect<S>>::TlsConnect, Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        MakeTlsConnect::<S>::make_tls_connect(&mut MakeRustlsConnect::new(self.tls.clone()), host).map_err(|error| {
            Error::with_source(ErrorKind::Invalid, "connect", "the host's name can't be used for TLS", error)
        })
    }

    /// Asks the server to end the statement that runs on the session of `token`; best effort.
    pub(crate) async fn cancel(&self, token: &CancelToken, target: &Target, settings: &Settings) -> Result<(), Error> {
        match target {
            Target::Unix(path) => {
                let stream = UnixStream::connect(path).await.map_err(unreachable)?;
                token.cancel_query_raw(stream, tokio_postgres::NoTls).await.map_err(|e| classify("cancel", e))
            }
            Target::Tcp { host, addr } => {
                let stream = tcp(*addr, settings).await?;
                token
                    .cancel_query_raw(stream, self.tls_for::<TcpStream>(host)?)
                    .await
                    .map_err(|e| classify("cancel", e))
            }
        }
    }
}

/// With the client's half of the settings: its kernel must notice a dead server, also with a request in flight.
async fn tcp(addr: SocketAddr, settings: &Settings) -> Result<TcpStream, Error> {
    let stream = TcpStream::connect(addr).await.map_err(unreachable)?;
    stream.set_nodelay(true).map_err(unreachable)?;
    let socket = SockRef::from(&stream);
    let interval = settings.keepalive_interval();
    socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(interval).with_interval(interval)).map_err(unreachable)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_user_timeout(Some(settings.user_timeout())).map_err(unreachable)?;
    Ok(stream)
}

fn unreachable(error: std::io::Error) -> Error {
    Error::with_source(ErrorKind::Unavailable, "connect", "the server could not be reached", error)
}

/// An ingress that does not know the startup message's options is a pooler.
fn refused(error: tokio_postgres::Error) -> Error {
    let said = error.as_db_error().map(|error| error.message().to_owned()).unwrap_or_default();
    if said.contains("startup parameter") {
        return Error::with_source(ErrorKind::Invalid, "connect", POOLER, error);
    }
    classify("connect", error)
}

/// Whether the server sees this side under the address that the socket has.
pub(crate) fn same_address(local: SocketAddr, seen: IpAddr, port: i32) -> bool {
    local.ip().to_canonical() == seen.to_canonical() && i32::from(local.port()) == port
}
