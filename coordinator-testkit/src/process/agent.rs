//! The program of an instance in a process of its own.

use super::lock;
use super::protocol::{Answer, Command, Line, Numbered, Span, Told};
use crate::moment::Moment;
use crate::stage::Backend;
use crate::{Env, Handle};
use coordinator_core::{ErasureCoordinatorExt, Error, ErrorKind, Lease, Mode, Scope};
use futures_util::future::try_join_all;
use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};

/// Does what the lines on the input say until it ends.
pub(crate) async fn serve(backend: Arc<dyn Backend>, env: Env) {
    let agent = Arc::new(Agent { backend, env, connected: OnceLock::new(), leases: Mutex::default() });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Numbered { number, command } = serde_json::from_str(&line).expect("a command of the case");
        let agent = Arc::clone(&agent);
        // Owned by the process: whatever still runs when the case is over ends with it.
        drop(tokio::spawn(async move {
            let answer = agent.answer(command).await.unwrap_or_else(|error| Answer::failed(&error));
            say(&Line::Answer { number, answer });
        }));
    }
}

struct Agent {
    backend: Arc<dyn Backend>,
    env: Env,
    connected: OnceLock<Handle>,
    leases: Mutex<HashMap<String, Arc<Lease>>>,
}

impl Agent {
    async fn answer(self: &Arc<Self>, command: Command) -> Result<Answer, Error> {
        match command {
            Command::Connect => {
                let handle = self.backend.connect(&self.env).await?;
                assert!(self.connected.set(handle).is_ok(), "connected once");
                Ok(Answer::Done)
            }
            Command::Acquire { scope, mode, limit } => {
                let lease = self.handle().acquire_within(&named(&scope), mode, limit).await?;
                Ok(lease.map_or(Answer::TimedOut, |lease| self.keep(scope, lease)))
            }
            Command::TryAcquire { scope, mode } => {
                let lease = self.handle().try_acquire(&named(&scope), mode).await?;
                Ok(lease.map_or(Answer::Refused, |lease| self.keep(scope, lease)))
            }
            Command::AcquireMany { scopes } => {
                let wanted: Vec<_> = (0..scopes).map(|i| (named(&format!("many-{i}")), Mode::Exclusive)).collect();
                std::mem::forget(self.handle().acquire_all(&wanted).await?);
                Ok(Answer::Granted { at: Moment::now() })
            }
            Command::Release { scope } => {
                let lease = lock(&self.leases).remove(&scope).expect("the case has acquired it");
                sole(lease).release().await.map(|()| Answer::Done)
            }
            Command::Fence { scope } => self.lease(&scope).fence().await.map(|token| Answer::Token(token.get())),
            Command::EnsureLive { scope } => Ok(Answer::Live(self.lease(&scope).ensure_live().is_ok())),
            Command::Inspect { scope } => {
                let seen = self.handle().inspect(&named(&scope)).await?;
                Ok(Answer::Seen { holders: seen.holders.len(), waiters: seen.waiters.len() })
            }
            Command::Block { time } => {
                for _ in 0..8 {
                    drop(tokio::spawn(async move { std::thread::sleep(time) }));
                }
                std::thread::sleep(time);
                Ok(Answer::Done)
            }
            Command::Churn { scope } => self.churn(&scope).await,
            Command::Contend { scope, tasks, shared, rounds, limit } => {
                let task = |task| self.contend(named(&scope), task, task < shared, rounds, limit);
                let spans = try_join_all((0..tasks).map(task)).await?;
                Ok(Answer::Contended(spans.concat()))
            }
            Command::Step { scope, time } => {
                let step = async move { tokio::time::sleep(time).await };
                self.lease(&scope).irreversible(Duration::ZERO, step).await.map(|()| Answer::Done)
            }
        }
    }

    fn handle(&self) -> &Handle {
        self.connected.get().expect("the case connects first")
    }

    fn lease(&self, scope: &str) -> Arc<Lease> {
        Arc::clone(lock(&self.leases).get(scope).expect("the case has acquired it"))
    }

    fn keep(&self, scope: String, lease: Lease) -> Answer {
        let (at, lease) = (Moment::now(), Arc::new(lease));
        watch(&scope, &lease);
        lock(&self.leases).insert(scope, lease);
        Answer::Granted { at }
    }

    async fn contend(
        &self,
        scope: Scope,
        task: usize,
        shared: bool,
        rounds: usize,
        limit: Duration,
    ) -> Result<Vec<Span>, Error> {
        let mode = if shared { Mode::Shared } else { Mode::Exclusive };
        let mut spans = Vec::new();
        for _ in 0..rounds {
            let asked = Moment::now();
            let lease = self.handle().acquire_within(&scope, mode, limit).await?;
            let from = Moment::now();
            let starved = || Error::new(ErrorKind::Unavailable, "contend", format!("not served within {limit:?}"));
            let lease = lease.ok_or_else(starved)?;
            let (token, fenced) = (lease.fence().await?.get(), Moment::now());
            tokio::time::sleep(Duration::from_millis(1)).await;
            lease.ensure_live()?;
            spans.push(Span { task, shared, asked, from, fenced, until: Moment::now(), token });
            lease.release().await?;
        }
        Ok(spans)
    }

    async fn churn(&self, scope: &str) -> Result<Answer, Error> {
        loop {
            let lease = self.handle().acquire(&named(scope), Mode::Exclusive).await?;
            lease.fence().await?;
            lease.release().await?;
        }
    }
}

fn named(scope: &str) -> Scope {
    Scope::new(scope).expect("the cases use valid names")
}

/// The lease itself, once who looks at it every millisecond has let go of it.
fn sole(mut shared: Arc<Lease>) -> Lease {
    loop {
        match Arc::try_unwrap(shared) {
            Ok(lease) => return lease,
            Err(looked_at) => shared = looked_at,
        }
        std::thread::yield_now();
    }
}

/// Says when the loss was told, and when the lease was last believed in; the latter from a thread of its own, that no
/// blocked runtime holds up.
fn watch(scope: &str, lease: &Arc<Lease>) {
    let (name, lost) = (scope.to_owned(), lease.lost());
    drop(tokio::spawn(async move {
        let reason = format!("{:?}", lost.await);
        say(&Line::Told(Told::Lost { scope: name, reason, at: Moment::now() }));
    }));
    let (scope, lease) = (scope.to_owned(), Arc::downgrade(lease));
    drop(std::thread::spawn(move || {
        let mut at = Moment::now();
        while let Some(lease) = lease.upgrade() {
            let asked = Moment::now();
            if lease.ensure_live().is_err() {
                return say(&Line::Told(Told::BelievedUntil { scope, at }));
            }
            at = asked;
            drop(lease);
            std::thread::sleep(Duration::from_millis(1));
        }
    }));
}

/// A line at once, whole: the process may be killed right after it.
fn say(line: &Line) {
    let mut text = serde_json::to_string(line).expect("text");
    text.push('\n');
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush()); // the case may be over
}
