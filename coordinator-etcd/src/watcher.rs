//! One stream for all that an instance watches.
//!
//! A watch only wakes: whoever waits then reads what is so, as they do from time to time in any case. So nothing depends
//! on an event being delivered, and a watch begins now instead of in a revision that may be compacted. When the stream
//! ends, or the server cancels something, every watch ends; who still needs theirs takes a new one.

use crate::servers::{Refused, Servers};
use coordinator_core::Upkeep;
use etcd_client::{WatchFilterType, WatchOptions, WatchStream};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::mpsc::{self, Receiver, Sender, UnboundedReceiver, UnboundedSender};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(2);

/// When the last handle and watch are dropped the stream is closed.
#[derive(Clone)]
pub(crate) struct Watcher {
    requests: UnboundedSender<Request>,
    /// Zero is the server's to choose.
    next: Arc<AtomicI64>,
}

enum Request {
    Watch(Wanted),
    Unwatch(i64),
    /// The stream has missed something.
    Reopen,
}

struct Wanted {
    id: i64,
    key: String,
    options: WatchOptions,
    wakes: Sender<()>,
}

/// Ends when it is dropped.
pub(crate) struct Watch {
    id: i64,
    wakes: Receiver<()>,
    requests: UnboundedSender<Request>,
}

impl Watcher {
    pub(crate) fn start(servers: Servers, upkeep: &Upkeep) -> Self {
        let (requests, inbox) = mpsc::unbounded_channel();
        drop(upkeep.spawn(run(servers, inbox)));
        Self { requests, next: Arc::new(AtomicI64::new(1)) }
    }

    /// Wakes when the watch has begun, and when the key is deleted.
    pub(crate) fn key(&self, key: String) -> Watch {
        self.watch(key, WatchOptions::new().with_filters([WatchFilterType::NoPut]))
    }

    /// Wakes when the watch has begun, and when a key with this prefix is put.
    pub(crate) fn prefix(&self, prefix: String) -> Watch {
        self.watch(prefix, WatchOptions::new().with_prefix().with_filters([WatchFilterType::NoDelete]))
    }

    fn watch(&self, key: String, options: WatchOptions) -> Watch {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (wakes, woken) = mpsc::channel(1);
        let wanted = Wanted { id, key, options: options.with_watch_id(id), wakes };
        let _ = self.requests.send(Request::Watch(wanted)); // without a task the watch has ended
        Watch { id, wakes: woken, requests: self.requests.clone() }
    }
}

impl Watch {
    /// `false` when it has ended.
    pub(crate) async fn changed(&mut self) -> bool {
        self.wakes.recv().await.is_some()
    }

    /// It has not woken where it should have.
    pub(crate) fn failed(&self) {
        let _ = self.requests.send(Request::Reopen); // without a task there is nothing to open
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.requests.send(Request::Unwatch(self.id)); // without a task it has ended
    }
}

/// States: closed until somebody watches, opening, open until the stream fails, and closed again.
async fn run(servers: Servers, mut requests: UnboundedReceiver<Request>) {
    while let Some(request) = requests.recv().await {
        let Request::Watch(first) = request else { continue };
        match timeout(LIMIT, open(&servers, &first)).await {
            Ok(Ok(stream)) => serve(stream, first, &mut requests).await,
            outcome => {
                if let Ok(Err(refused)) = outcome {
                    tracing::debug!(?refused, "the watch could not be opened");
                }
                // Who came meanwhile looks and asks again, like the first one.
                while requests.try_recv().is_ok() {}
            }
        }
        servers.avoid_preferred();
    }
}

async fn open(servers: &Servers, first: &Wanted) -> Result<WatchStream, Refused> {
    let client = servers.client().await?;
    client.watch_client().watch(first.key.as_str(), Some(first.options.clone())).await.map_err(Refused::Failed)
}

async fn serve(stream: WatchStream, first: Wanted, requests: &mut UnboundedReceiver<Request>) {
    let (mut server, mut answers) = stream.split();
    let mut watches = HashMap::from([(first.id, first.wakes)]);
    loop {
        tokio::select! {
            biased;
            request = requests.recv() => {
                let told = match request {
                    Some(Request::Watch(wanted)) => {
                        watches.insert(wanted.id, wanted.wakes);
                        timeout(LIMIT, server.watch(wanted.key, Some(wanted.options))).await
                    }
                    Some(Request::Unwatch(id)) if watches.remove(&id).is_some() => {
                        timeout(LIMIT, server.cancel(id)).await
                    }
                    Some(Request::Unwatch(_)) => continue,
                    Some(Request::Reopen) | None => return,
                };
                if !matches!(told, Ok(Ok(()))) {
                    return;
                }
            }
            answer = answers.message() => {
                let Ok(Some(answer)) = answer else { return };
                let Some(wakes) = watches.get(&answer.watch_id()) else { continue };
                if answer.canceled() {
                    tracing::debug!(reason = answer.cancel_reason(), "the server ended a watch");
                    return;
                }
                // One wake that is not yet received stands for any number.
                if let Err(TrySendError::Closed(())) = wakes.try_send(()) {
                    watches.remove(&answer.watch_id());
                }
            }
        }
    }
}
