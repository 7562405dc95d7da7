use super::{
    failure::Failure,
    key_service::{KeyReply, KeyRequest, KeyService},
};
use async_trait::async_trait;
use std::{
    io,
    net::SocketAddr,
    sync::{Mutex, PoisonError},
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
};

/// An instance's way to the [`KeyServer`](super::key_server::KeyServer).
#[derive(Debug)]
pub(crate) struct KeyClient {
    server: SocketAddr,
    idle: Mutex<Vec<BufReader<TcpStream>>>,
}

impl KeyClient {
    /// A client of the service at this address; connects when it is first asked.
    pub(crate) fn new(server: SocketAddr) -> Self {
        Self { server, idle: Mutex::default() }
    }

    async fn exchange(&self, request: &KeyRequest) -> io::Result<KeyReply> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => {
                let stream = TcpStream::connect(self.server).await?;
                stream.set_nodelay(true)?;
                BufReader::new(stream)
            }
        };
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        connection.write_all(&line).await?;
        let mut reply = String::new();
        if connection.read_line(&mut reply).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let reply = serde_json::from_str(&reply)?;
        // Only now: a connection that owes an answer must not serve the next request.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        Ok(reply)
    }
}

#[async_trait]
impl KeyService for KeyClient {
    async fn ask(&self, request: KeyRequest) -> Result<KeyReply, Failure> {
        self.exchange(&request).await.map_err(Failure::KeyService)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drill::{key_server::KeyServer, key_service::KeyName, vault::Vault};

    #[tokio::test]
    async fn a_destroy_that_was_sent_lands_after_the_client_has_gone() {
        let (vault, key) = (Vault::new(), KeyName { subject: 1, generation: 0 });
        let server = KeyServer::start(vault.clone()).await.expect("a free port");
        let client = KeyClient::new(server.address());
        assert!(client.is_usable(key).await.expect("answers"));
        let mut line = serde_json::to_vec(&KeyRequest::Destroy(key)).expect("serializes");
        line.push(b'\n');
        let mut dying = TcpStream::connect(server.address()).await.expect("connects");
        dying.write_all(&line).await.expect("sent");
        drop((dying, client));
        server.settle().await;
        assert!(vault.is_destroyed(key));
    }
}
