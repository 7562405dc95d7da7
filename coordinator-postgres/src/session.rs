use crate::connect::{Connector, Raw, Target, same_address};
use crate::error::{POOLER, classify};
use crate::settings::Settings;
use coordinator_core::{Error, ErrorKind};
use std::net::IpAddr;
use tokio::task::JoinHandle;
use tokio_postgres::Client;

/// A session of our own whose settings were read back; its life is the life of its locks.
pub(crate) struct Opened {
    pub(crate) client: Client,
    pub(crate) connection: Connection,
    pub(crate) target: Target,
    /// How many locks the whole server can hold.
    pub(crate) lock_table: usize,
}

/// The task that drives a connection; dropping it closes the socket, and the server frees the session's locks.
pub(crate) struct Connection(JoinHandle<Result<(), tokio_postgres::Error>>);

impl Connection {
    pub(crate) fn has_ended(&self) -> bool {
        self.0.is_finished()
    }

    /// Resolves when the connection ends, with what the server said.
    pub(crate) async fn ended(&mut self) -> Option<tokio_postgres::Error> {
        (&mut self.0).await.ok().and_then(Result::err)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

const SERVER: &str = "SELECT current_setting('coordinator.nonce', true), pg_is_in_recovery(),
    current_setting('server_version_num')::int, host(inet_client_addr()), inet_client_port(),
    current_setting('max_locks_per_transaction')::bigint
        * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint)";

/// Opens a session on the first server of the list that can be the lock's.
pub(crate) async fn open(connector: &Connector, settings: &Settings) -> Result<Opened, Error> {
    let mut outcome = Err(Error::new(ErrorKind::Invalid, "connect", "the configuration names no server"));
    for target in connector.targets().await? {
        outcome = open_one(connector, target, settings).await;
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

async fn open_one(connector: &Connector, target: Target, settings: &Settings) -> Result<Opened, Error> {
    let nonce = format!("{:016x}", random()?);
    let Raw { client, connection, target, local } = connector.connect(target, settings, &nonce).await?;
    let connection = Connection(connector.upkeep.spawn(connection));
    let mut opened = Opened { client, connection, target, lock_table: 0 };
    let limit = connector.upkeep.sleep(connector.timeout);
    tokio::select! {
        biased;
        checked = check(&mut opened, settings, &nonce, local) => checked?,
        () = limit => return Err(Error::new(ErrorKind::Unavailable, "connect", "the server stopped answering")),
    }
    Ok(opened)
}

async fn check(
    opened: &mut Opened,
    settings: &Settings,
    nonce: &str,
    local: Option<std::net::SocketAddr>,
) -> Result<(), Error> {
    let invalid = |why: String| Err(Error::new(ErrorKind::Invalid, "connect", why));
    let failed = |error| classify("connect", error);
    let row = opened.client.query_typed(SERVER, &[]).await.map_err(failed)?;
    let Some(row) = row.first() else { return invalid(POOLER.into()) };
    if row.get::<_, Option<String>>(0).as_deref() != Some(nonce) {
        return invalid(POOLER.into());
    }
    if row.get(1) {
        return invalid(
            "the server is a standby: its locks exclude nobody on the primary. Name the primary, or all servers \
             (host=a,b): the one that is not in recovery is taken"
                .into(),
        );
    }
    let version: i32 = row.get(2);
    if version < 140_000 {
        return invalid(format!("PostgreSQL 14 or newer is needed, this is {}", version / 10_000));
    }
    warn_of_proxy(local, row.get(3), row.get(4));
    opened.lock_table = usize::try_from(row.get::<_, i64>(5)).unwrap_or(usize::MAX);
    if version >= 170_000 {
        // Can end a session; older servers don't know it.
        opened.client.batch_execute("SET transaction_timeout = 0").await.map_err(failed)?;
    }
    read_back(&opened.client, settings, local.is_some()).await
}

/// What was asked for must be what the server does: a setting that it took otherwise would be a false promise.
pub(crate) async fn read_back(client: &Client, settings: &Settings, over_tcp: bool) -> Result<(), Error> {
    let wanted = settings.all();
    let names: Vec<&str> = wanted.iter().map(|(name, ..)| *name).collect();
    let sql = "SELECT name, setting FROM pg_settings WHERE name = ANY($1)";
    let rows = client
        .query_typed(sql, &[(&names, tokio_postgres::types::Type::TEXT_ARRAY)])
        .await
        .map_err(|error| classify("connect", error))?;
    for (name, value, tcp_only) in wanted {
        let has = rows.iter().find(|row| row.get::<_, &str>(0) == name).map(|row| row.get::<_, String>(1));
        if has.as_ref() != Some(&value) && (over_tcp || !tcp_only) {
            let has = has.unwrap_or_else(|| "nothing".into());
            let message = format!("the server has {has} for {name}, where the lock needs {value}");
            return Err(Error::new(ErrorKind::Invalid, "connect", message));
        }
    }
    Ok(())
}

fn warn_of_proxy(local: Option<std::net::SocketAddr>, seen: Option<&str>, port: Option<i32>) {
    let (Some(local), Some(seen), Some(port)) = (local, seen.and_then(|seen| seen.parse::<IpAddr>().ok()), port) else {
        return;
    };
    if !same_address(local, seen, port) {
        tracing::warn!(
            %local, server_sees = %format!("{seen}:{port}"),
            "something between this instance and the server ends or rewrites TCP: if it ends it, the server's kernel \
             can't notice a dead instance behind it, and only release_when_silent_for bounds how long its scopes stay held"
        );
    }
}

pub(crate) fn random() -> Result<u64, Error> {
    getrandom::u64().map_err(|error| {
        Error::new(ErrorKind::Unavailable, "connect", format!("the operating system gives no random number: {error}"))
    })
}
