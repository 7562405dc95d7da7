//! That a holder is asked to give up travels as a notification: the primary of every instance listens.

use crate::error::classify;
use coordinator_core::{Error, Scope};
use std::future::poll_fn;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::UnboundedSender;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, Connection};

/// The channel of the instances that share their keys, and so their fingerprint.
pub(crate) fn channel(fingerprint: &str) -> String {
    format!("coordinator_revoke_{fingerprint}")
}

pub(crate) async fn listen(client: &Client, channel: &str) -> Result<(), Error> {
    client.batch_execute(&format!("LISTEN {channel}")).await.map_err(|error| classify("connect", error))
}

/// Drives a connection to its end, and passes on whose holders are to give up.
pub(crate) async fn drive<S, T>(
    mut connection: Connection<S, T>,
    revoked: UnboundedSender<Scope>,
) -> Result<(), tokio_postgres::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
        if let AsyncMessage::Notification(notification) = message?
            && let Some(scope) = read(notification.payload())
        {
            let _ = revoked.send(scope); // nobody hears it once the coordinator is gone
        }
    }
    Ok(())
}

pub(crate) async fn notify(client: &Client, channel: &str, scope: &Scope) -> Result<(), Error> {
    let sql = "SELECT pg_notify($1, $2)";
    let asked = client.query_typed(sql, &[(&channel, Type::TEXT), (&hex::encode(scope.digest()), Type::TEXT)]).await;
    asked.map(drop).map_err(|error| classify("revoke", error))
}

/// `None` for what no instance wrote: any client may notify.
fn read(payload: &str) -> Option<Scope> {
    let mut digest = [0; 32];
    hex::decode_to_slice(payload, &mut digest).ok()?;
    Some(Scope::from_digest(digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_read_as_it_was_written_and_nothing_else_is() {
        let scope = Scope::new("subject-42").expect("valid");
        let written = hex::encode(scope.digest());
        assert_eq!(read(&written), Some(scope));
        for other in ["", "42", &"g".repeat(64), &"é".repeat(32), &written[1..], &format!("{written}0")] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
