//! A link that ends TCP and knows the server's messages: it can be cut, silenced or slowed before or after each.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

/// From whom a message comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// From who opened the connection.
    Instance,
    /// From who accepted it.
    Server,
}

/// How messages are told apart in what one side sends.
#[derive(Clone, Copy, Debug)]
pub enum Framing {
    /// What one read brings is one message: good enough where answers are awaited one by one.
    Reads,
    /// How many bytes the first message has, once that can be told; the flag says that it is the first one of its side.
    Lengths(fn(&[u8], Side, bool) -> Option<usize>),
}

/// What happens to a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Every connection is reset.
    Cut,
    /// This connection is reset; the others live.
    Drop,
    /// Nothing passes any more; the sockets stay open.
    Silence,
    /// This many bytes of the message pass, then every connection is reset.
    Truncate(usize),
}

/// Which message the fault meets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trap {
    /// What happens to it.
    pub fault: Fault,
    /// Whether only the messages of one side count.
    pub of: Option<Side>,
    /// How many pass before.
    pub after: usize,
}

/// A link to one server; dropping it cuts it for good.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    link: Arc<Link>,
    accepting: AbortHandle,
}

#[derive(Debug)]
struct Link {
    server: String,
    framing: Framing,
    state: Mutex<State>,
    trapped: watch::Sender<bool>,
    /// Grows with every cut.
    cuts: watch::Sender<u64>,
    silent: watch::Sender<(bool, bool)>,
}

#[derive(Default, Debug)]
struct State {
    trap: Option<Trap>,
    delay: Duration,
    peers: Vec<SocketAddr>,
}

impl Proxy {
    /// A link to the server at `host:port`.
    ///
    /// # Panics
    /// If there is no port to listen on.
    pub async fn to(server: &str, framing: Framing) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let link = Arc::new(Link {
            server: server.to_owned(),
            framing,
            state: Mutex::default(),
            trapped: watch::Sender::default(),
            cuts: watch::Sender::default(),
            silent: watch::Sender::default(),
        });
        let serving = Arc::clone(&link);
        let accepting = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (instance, peer) = listener.accept().await.expect("a connection");
                serving.state().peers.push(peer);
                connections.spawn(connect(Arc::clone(&serving), instance));
                while connections.try_join_next().is_some() {}
            }
        });
        Self { port, link, accepting: accepting.abort_handle() }
    }

    /// The `host:port` that leads to the server by this link.
    pub fn place(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Everybody who ever connected.
    pub fn peers(&self) -> Vec<SocketAddr> {
        self.link.state().peers.clone()
    }

    /// Resets every connection; new ones pass.
    pub fn cut(&self) {
        self.link.cut();
    }

    /// Whether messages of the instances, and of the server, stay where they are.
    pub fn silence(&self, of_instances: bool, of_server: bool) {
        self.link.silent.send_replace((of_instances, of_server));
    }

    /// The server's messages come this much later.
    pub fn delay(&self, replies: Duration) {
        self.link.state().delay = replies;
    }

    /// Sets the one trap there is; an earlier one is gone.
    pub fn set(&self, trap: Trap) {
        self.link.trapped.send_replace(false);
        self.link.state().trap = Some(trap);
    }

    /// No trap and no silence any more; whether the trap had met its message.
    pub fn heal(&self) -> bool {
        self.link.state().trap = None;
        self.silence(false, false);
        *self.link.trapped.borrow()
    }

    /// Resolves when the trap has met its message.
    ///
    /// # Panics
    /// Never: the link lives as long as this.
    pub async fn trapped(&self) {
        let mut trapped = self.link.trapped.subscribe();
        trapped.wait_for(|trapped| *trapped).await.expect("the link lives");
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Link {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("not poisoned")
    }

    fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// The fault that this message meets.
    fn meets(&self, from: Side) -> Option<Fault> {
        let mut state = self.state();
        let trap = state.trap.as_mut()?;
        if trap.of.is_some_and(|of| of != from) {
            return None;
        }
        if trap.after > 0 {
            trap.after -= 1;
            return None;
        }
        let fault = trap.fault;
        state.trap = None;
        Some(fault)
    }

    async fn sounds(&self, from: Side) {
        let is_silent = |silent: &(bool, bool)| if from == Side::Instance { silent.0 } else { silent.1 };
        self.silent.subscribe().wait_for(|silent| !is_silent(silent)).await.expect("the link lives");
    }
}

async fn connect(link: Arc<Link>, instance: TcpStream) {
    let mut cuts = link.cuts.subscribe();
    cuts.mark_unchanged();
    let Ok(server) = TcpStream::connect(&link.server).await else { return };
    for stream in [&instance, &server] {
        stream.set_nodelay(true).expect("an open socket");
        socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)).expect("an open socket");
    }
    let (mut instance_reads, mut instance_writes) = instance.into_split();
    let (mut server_reads, mut server_writes) = server.into_split();
    tokio::select! {
        biased;
        _ = cuts.changed() => {}
        () = pump(&link, Side::Instance, &mut instance_reads, &mut server_writes) => {}
        () = pump(&link, Side::Server, &mut server_reads, &mut instance_writes) => {}
    }
    // A reset and nothing before it.
    instance_writes.forget();
    server_writes.forget();
}

async fn pump(link: &Link, from: Side, reads: &mut OwnedReadHalf, writes: &mut OwnedWriteHalf) {
    let mut buffer = Vec::new();
    let mut is_first = true;
    loop {
        while let Some(length) = link.framing.length(&buffer, from, is_first) {
            is_first = false;
            let rest = buffer.split_off(length);
            let delay = link.state().delay;
            if from == Side::Server && rest.is_empty() && !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            link.sounds(from).await;
            let fault = link.meets(from);
            let passing = match fault {
                None => &buffer[..],
                Some(Fault::Cut | Fault::Drop | Fault::Silence) => &[],
                Some(Fault::Truncate(bytes)) => &buffer[..bytes.min(length)],
            };
            if writes.write_all(passing).await.is_err() {
                return;
            }
            if let Some(fault) = fault {
                // Done before it is told: who hears of it may heal the link.
                match fault {
                    Fault::Silence => drop(link.silent.send_replace((true, true))),
                    Fault::Cut | Fault::Truncate(_) => link.cut(),
                    Fault::Drop => {}
                }
                link.trapped.send_replace(true);
                match fault {
                    Fault::Silence => {}
                    Fault::Cut | Fault::Truncate(_) => pending().await,
                    Fault::Drop => return,
                }
                link.sounds(from).await;
                if writes.write_all(&buffer).await.is_err() {
                    return;
                }
            }
            buffer = rest;
        }
        match reads.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return link.sounds(from).await,
            Ok(_) => {}
        }
    }
}

impl Framing {
    /// How long the first message is, if it is there.
    fn length(self, buffer: &[u8], from: Side, is_first: bool) -> Option<usize> {
        match self {
            Self::Reads => (!buffer.is_empty()).then_some(buffer.len()),
            Self::Lengths(length) => length(buffer, from, is_first).filter(|length| buffer.len() >= *length),
        }
    }
}
