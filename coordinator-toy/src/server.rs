use crate::lock_table::{LockTable, Says, SessionId};
use crate::wire::{Numbered, Reply, Request};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

/// The lock server; dropping it ends it, and all sessions.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    _accepting: AbortOnDropHandle<()>,
}

impl Server {
    /// At a free port of this host, on the runtime that it is called on. A session that says nothing for `silence` is
    /// ended.
    ///
    /// # Errors
    /// When the operating system gives no port.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn start(silence: Duration) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let house = House { state: Arc::new(Mutex::new(State::new(silence))), silence };
        Ok(Self { address, _accepting: AbortOnDropHandle::new(tokio::spawn(house.accept(listener))) })
    }

    /// `host:port`.
    pub fn address(&self) -> String {
        self.address.to_string()
    }
}

/// Ends all sessions of an instance at the server, as its operator would.
///
/// # Errors
/// When the server can't be reached.
///
/// # Cancel safety
/// May be dropped at any time; whether it was done is not known then.
pub async fn end_sessions(server: &str, instance: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect(server).await?;
    let end = Numbered { number: 0, body: Request::End { instance: instance.to_owned() } };
    stream.write_all(&end.line()).await?;
    let answer = BufReader::new(stream).lines().next_line().await?;
    answer.map(drop).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

#[derive(Clone)]
struct House {
    state: Arc<Mutex<State>>,
    silence: Duration,
}

struct State {
    table: LockTable,
    /// What is to be said to each session; dropping it ends the session.
    voices: HashMap<SessionId, mpsc::UnboundedSender<Numbered<Reply>>>,
}

impl State {
    fn new(silence: Duration) -> Self {
        Self { table: LockTable::new(silence), voices: HashMap::new() }
    }

    fn say(&self, says: Says) {
        for (session, reply) in says {
            if let Some(voice) = self.voices.get(&session) {
                let _ = voice.send(reply); // it may be ending
            }
        }
    }

    fn leave(&mut self, session: SessionId) {
        self.voices.remove(&session);
        let says = self.table.leave(session);
        self.say(says);
    }
}

impl House {
    async fn accept(self, listener: TcpListener) {
        let mut sessions = JoinSet::new();
        for id in 0.. {
            let Ok((stream, _)) = listener.accept().await else { continue };
            while sessions.try_join_next().is_some() {}
            sessions.spawn(self.clone().serve(id, stream));
        }
    }

    async fn serve(self, id: SessionId, stream: TcpStream) {
        let _ = stream.set_nodelay(true); // slower without
        let (reader, mut writer) = stream.into_split();
        let (voice, mut replies) = mpsc::unbounded_channel();
        self.state().voices.insert(id, voice);
        let _leaves = Leaves(&self, id);
        let listens = async {
            let mut lines = BufReader::new(reader).lines();
            // A session ends by its silence, too.
            while let Ok(Ok(Some(line))) = tokio::time::timeout(self.silence, lines.next_line()).await {
                let Ok(request) = serde_json::from_str(&line) else { return };
                self.hear(id, request);
            }
        };
        let speaks = async {
            while let Some(reply) = replies.recv().await {
                if writer.write_all(&reply.line()).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = listens => {}
            () = speaks => {}
        }
    }

    fn hear(&self, id: SessionId, request: Numbered<Request>) {
        let mut state = self.state();
        if let Request::End { instance } = &request.body {
            for session in state.table.sessions_of(instance) {
                state.leave(session);
            }
        }
        let says = state.table.answer(id, request);
        state.say(says);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// However the session ends: also when its task is aborted.
struct Leaves<'h>(&'h House, SessionId);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.state().leave(self.1);
    }
}
