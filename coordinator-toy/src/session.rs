//! A connection whose life is the life of the locks that were taken on it.
//!
//! One task owns the connection. It sends what is asked and a ping when nothing is, and gives each answer to who asked.
//! States: live, then lost for ever. It is lost when the connection ends, when its deadline passes, and when the
//! coordinator ends it; whichever it is, the loss is told first, and the connection closed then, so that no other
//! instance has a lock while this one believes in it.

use crate::error::{classify, unanswered};
use crate::wire::{Numbered, Reply, Request};
use coordinator_core::{Error, LossReason, Moment, Session, Upkeep};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};

/// How long a server may take to let an instance in.
const LIMIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct ToySession {
    session: Session,
    asks: mpsc::UnboundedSender<Asked>,
    numbers: AtomicU64,
}

#[derive(Debug)]
struct Asked {
    request: Numbered<Request>,
    reply: oneshot::Sender<Reply>,
}

impl ToySession {
    /// Connected and let in when this returns.
    pub(crate) async fn open(server: &str, instance: &str, upkeep: &Upkeep) -> Result<Self, Error> {
        let failed = |source| classify("connect", server, source);
        let enter = Connection::enter(server, instance);
        let entered = tokio::time::timeout(LIMIT, enter).await.map_err(|_| failed(io::ErrorKind::TimedOut.into()))?;
        let connection = entered.map_err(failed)?;
        let session = connection.session.clone();
        let (asks, asked) = mpsc::unbounded_channel();
        // It ends with the sender, or with the session.
        drop(upkeep.spawn(connection.run(asked, upkeep.clone())));
        Ok(Self { session, asks, numbers: AtomicU64::new(1) })
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// The answer; an error when the session ends first.
    pub(crate) async fn ask(&self, operation: &'static str, request: Request) -> Result<Reply, Error> {
        self.send(request).1.await.map_err(|_| unanswered(operation))
    }

    /// Under which number it was asked, and where the answer will be.
    pub(crate) fn send(&self, request: Request) -> (u64, oneshot::Receiver<Reply>) {
        let (number, (reply, answer)) = (self.numbers.fetch_add(1, Ordering::Relaxed), oneshot::channel());
        // Where the task has ended the receiver says so.
        let _ = self.asks.send(Asked { request: Numbered { number, body: request }, reply });
        (number, answer)
    }
}

/// The task's own.
struct Connection {
    reader: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
    /// How long after the sending of an answered request the session is certainly alive at the server.
    deadline: Duration,
    session: Session,
}

impl Connection {
    async fn enter(server: &str, instance: &str) -> io::Result<Self> {
        let sent = Moment::now();
        let stream = TcpStream::connect(server).await?;
        stream.set_nodelay(true)?;
        let (reader, mut writer) = stream.into_split();
        let hello = Numbered { number: 0, body: Request::Hello { instance: instance.to_owned() } };
        writer.write_all(&hello.line()).await?;
        let mut reader = BufReader::new(reader).lines();
        let line = reader.next_line().await?.ok_or(io::ErrorKind::UnexpectedEof)?;
        match serde_json::from_str(&line) {
            Ok(Numbered { body: Reply::Welcome { silence }, .. }) => {
                // Earlier than the server, whatever the two clocks make of a second.
                let deadline = silence * 9 / 10;
                Ok(Self { reader, writer, deadline, session: Session::until(sent.after(deadline)) })
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    async fn run(mut self, mut asked: mpsc::UnboundedReceiver<Asked>, upkeep: Upkeep) {
        let (mut open, mut outgoing) = (HashMap::new(), Vec::new());
        // Dropped before the connection and before those who wait for answers, also when the task is aborted.
        let session = Ends(self.session.clone());
        let mut expiry = std::pin::pin!(session.0.expiry(&upkeep));
        let mut pings = tokio::time::interval(self.deadline / 8);
        // Each has a number of its own, from the far end: an answer must not count from a later ping.
        let mut ping = u64::MAX;
        loop {
            tokio::select! {
                _ = &mut expiry => return,
                line = self.reader.next_line() => {
                    let Ok(Some(line)) = line else { return };
                    let Ok(Numbered { number, body }) = serde_json::from_str(&line) else { return };
                    let Some((sent, reply)) = open.remove(&number) else { return };
                    self.session.renew(Moment::after(sent, self.deadline));
                    let _ = oneshot::Sender::send(reply, body); // who asked may be gone
                }
                written = self.writer.write(&outgoing), if !outgoing.is_empty() => {
                    let Ok(written) = written else { return };
                    outgoing.drain(..written);
                }
                asked = asked.recv() => {
                    let Some(Asked { request, reply }) = asked else { return };
                    open.insert(request.number, (Moment::now(), reply));
                    outgoing.extend(request.line());
                }
                _ = pings.tick() => {
                    ping -= 1;
                    open.insert(ping, (Moment::now(), oneshot::channel().0)); // nobody waits for the answer
                    outgoing.extend(Numbered { number: ping, body: Request::Ping }.line());
                }
            }
        }
    }
}

struct Ends(Session);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.lose(LossReason::Disconnected); // unless another reason came first
    }
}
