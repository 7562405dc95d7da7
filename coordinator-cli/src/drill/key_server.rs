use super::{
    failure::Failure,
    key_client::KeyClient,
    key_service::{KeyName, KeyRequest, KeyService as _},
    vault::Vault,
};
use std::net::{Ipv4Addr, SocketAddr};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// The key service for instances that are processes: lines of JSON over loopback TCP.
#[derive(Debug)]
pub(crate) struct KeyServer {
    address: SocketAddr,
    vault: Vault,
    connections: TaskTracker,
    stop: CancellationToken,
}

impl KeyServer {
    /// Listens on a free port.
    pub(crate) async fn start(vault: Vault) -> Result<Self, Failure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(Failure::KeyService)?;
        let address = listener.local_addr().map_err(Failure::KeyService)?;
        let (connections, stop) = (TaskTracker::new(), CancellationToken::new());
        connections.spawn(accept(listener, vault.clone(), connections.clone(), stop.clone()));
        Ok(Self { address, vault, connections, stop })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until the clients have gone and all they sent has taken effect.
    pub(crate) async fn settle(&self) {
        // Connections are accepted in order: once this one is answered, none that came before it is left in the queue.
        // If it is not answered, the listener is gone, and so is the queue.
        let _ = KeyClient::new(self.address).is_usable(KeyName { subject: -1, generation: -1 }).await;
        self.stop.cancel();
        self.connections.close();
        self.connections.wait().await;
        self.vault.settle().await;
    }
}

impl Drop for KeyServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn accept(listener: TcpListener, vault: Vault, connections: TaskTracker, stop: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        // A client that is killed while it connects is no fault of the service.
        if let Ok((stream, _)) = accepted {
            connections.spawn(serve(stream, vault.clone()));
        }
    }
}

async fn serve(stream: TcpStream, vault: Vault) {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(request) = serde_json::from_str::<KeyRequest>(&line) else { return };
        let Ok(reply) = vault.ask(request).await else { return };
        let Ok(mut line) = serde_json::to_vec(&reply) else { return };
        line.push(b'\n');
        if writer.write_all(&line).await.is_err() {
            return;
        }
    }
}
