use super::{
    event::Told,
    failure::Failure,
    key_client::KeyClient,
    phase::Lock,
    plane::Plane,
    postgres_store::PostgresStore,
    worker::{WORKERS, Worker},
};
use coordinator_core::{Distributed, ErasureCoordinator};
use coordinator_local::LocalCoordinator;
use coordinator_postgres::PostgresCoordinator;
use serde::{Deserialize, Serialize};
use std::{
    io::{self, BufWriter, Write},
    net::SocketAddr,
    sync::Arc,
    thread,
    time::Duration,
};
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// What an instance says on its first line, before it waits for the word to begin.
pub(crate) const READY: &str = "ready";

/// How many connections an instance's store has: fewer than it has workers, as is usual.
const CONNECTIONS: usize = 4;

/// What an instance is told on the first line of its standard input.
///
/// Not by arguments, which others can read: the URL may hold a password.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) schema: String,
    pub(crate) lock: Lock,
    pub(crate) subjects: i64,
    pub(crate) keys: SocketAddr,
}

/// An instance as a process: works until its standard input ends, also by the drill's death.
pub(crate) async fn run() -> Result<(), Failure> {
    let mut lines = standard_input();
    let Some(orders) = lines.recv().await else { return Ok(()) };
    let unreadable = |error| Failure::Unexpected(format!("an instance is started by the drill alone: {error}"));
    let orders: Orders = serde_json::from_str(&orders).map_err(unreadable)?;
    let coordinator: Arc<dyn ErasureCoordinator> = match orders.lock {
        Lock::Unprotected => Arc::new(LocalCoordinator::new()),
        Lock::Protected => shared(&orders.url, &orders.name).await?.into_inner(),
    };
    let store = PostgresStore::new(&orders.url, &orders.schema, &orders.schema, CONNECTIONS)?;
    let keys = KeyClient::new(orders.keys);
    let plane = Arc::new(Plane::new(Arc::clone(&coordinator), Arc::new(store), Arc::new(keys), &orders.schema));
    writeln!(io::stdout(), "{READY}").map_err(|error| Failure::Unexpected(format!("the drill is gone: {error}")))?;
    let stop = CancellationToken::new();
    if lines.recv().await.is_some() {
        let (events, told) = mpsc::unbounded_channel();
        let telling = thread::spawn(move || tell(told));
        let worker = |_| {
            let (plane, events, stop) = (Arc::clone(&plane), events.clone(), stop.clone());
            Worker { plane, subjects: orders.subjects, events, stop }
        };
        let mut workers = (0..WORKERS).map(worker).collect::<Vec<_>>();
        drop(events);
        let ended = tokio::spawn({
            let stop = stop.clone();
            async move {
                while lines.recv().await.is_some() {}
                stop.cancel();
            }
        });
        if let Some(worker) = workers.first_mut() {
            worker.resume_what_was_left().await;
        }
        let tasks = TaskTracker::new();
        for worker in workers {
            tasks.spawn(worker.run());
        }
        tasks.close();
        tasks.wait().await;
        ended.abort();
        // Every acknowledgement is told before the process ends; a panic there shows as a drill without them.
        let _ = tokio::task::spawn_blocking(|| telling.join()).await;
    }
    coordinator.shutdown(Duration::from_secs(5)).await?;
    Ok(())
}

/// The coordinator that all instances of a protected phase share.
async fn shared(url: &str, instance: &str) -> Result<Distributed, Failure> {
    let coordinator = PostgresCoordinator::builder(url)?.instance(instance).connect().await?;
    Ok(Arc::new(coordinator).into())
}

/// The lines of standard input, read on a thread of its own.
///
/// Such a read can't be cancelled, and must not delay the end of the process.
fn standard_input() -> UnboundedReceiver<String> {
    let (sender, lines) = mpsc::unbounded_channel();
    thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Writes what the workers tell to standard output, a line each, in as few writes as keep it prompt.
fn tell(mut told: UnboundedReceiver<Told>) -> io::Result<()> {
    let mut output = BufWriter::new(io::stdout().lock());
    while let Some(event) = told.blocking_recv() {
        serde_json::to_writer(&mut output, &event)?;
        output.write_all(b"\n")?;
        if told.is_empty() {
            output.flush()?;
        }
    }
    output.flush()
}
