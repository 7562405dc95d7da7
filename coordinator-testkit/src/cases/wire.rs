//! The link is cut before, within and after every message of every operation.

use super::Need;
use crate::faults::{Fault, Link};
use crate::stage::Stage;
use crate::{Handle, PATIENCE, is_free, until, within};
use coordinator_core::{ErasureCoordinator, Error, ErrorKind, FencingToken, Lease, Mode, Scope, under_lock};
use std::sync::{Arc, Mutex};
use std::time::Duration;

super::cases![
    &[Need::Network, Need::Link] => [
        a_try_that_is_cut_at_any_message_leaves_nothing_held,
        an_acquire_that_is_cut_at_any_message_leaves_nothing_held,
        a_shared_acquire_that_is_cut_at_any_message_leaves_nothing_held,
        a_wait_that_is_cut_at_any_message_leaves_nothing_held_or_queued,
        a_wait_that_is_dropped_at_any_message_leaves_nothing_held_or_queued,
        a_release_that_is_cut_at_any_message_frees_the_scope,
        a_verify_that_is_cut_at_any_message_never_vouches_for_a_lost_lease,
        a_fence_that_is_cut_at_any_message_keeps_tokens_growing,
        work_under_a_lock_that_is_cut_at_any_message_ends_and_frees_the_scope,
        what_is_dropped_at_any_message_leaves_nothing_held,
    ],
];

/// All connections are reset; one is; some bytes of a message pass first; all of it passes.
const FAULTS: [Fault; 4] = [Fault::Cut, Fault::Drop, Fault::Truncate(3), Fault::Truncate(usize::MAX)];

/// An instance behind a link, and another that is not.
struct Wire {
    link: Link,
    behind: Handle,
    other: Handle,
}

fn scope() -> Scope {
    Scope::new("s").expect("valid")
}

impl Wire {
    async fn new(stage: &Stage) -> Self {
        let link = stage.link().await;
        Self { behind: stage.connect_in(&stage.behind(&link)).await, other: stage.connect().await, link }
    }

    /// The link is whole, and the instance is connected by it.
    async fn warm_up(&self) {
        self.link.heal();
        let warm = Scope::new("warm").expect("valid");
        until(PATIENCE, "the instance is connected again", async || {
            match self.behind.acquire(&warm, Mode::Exclusive).await {
                Ok(lease) => lease.release().await.is_ok(),
                Err(error) => {
                    is_clear(&error);
                    false
                }
            }
        })
        .await;
    }

    /// Runs `operation` once for each message and fault, until it meets no more messages.
    async fn at_every_message(&self, operation: impl AsyncFn()) {
        for fault in FAULTS {
            let mut messages = 0;
            loop {
                self.warm_up().await;
                self.link.set(fault, None, messages);
                operation().await;
                if !self.link.heal() {
                    break;
                }
                is_free(&self.other, &scope()).await;
                messages += 1;
            }
            println!("measured: {fault:?} at each of {messages} messages");
            assert!(messages >= 2, "an operation asks and is answered");
        }
    }

    /// Whoever believes in a lease after the server vouched for it excludes the other.
    async fn excludes(&self, lease: &Lease) {
        self.link.heal();
        if lease.verify(Duration::ZERO).await.is_ok() {
            let other = self.other.try_acquire(&scope(), Mode::Shared).await.expect("an answer");
            assert!(other.is_none() || lease.ensure_live().is_err(), "two holders");
        }
    }

    /// A lease, unless the fault met the acquire; the operation itself is met in later rounds.
    async fn held(&self) -> Option<Lease> {
        self.behind.acquire(&scope(), Mode::Exclusive).await.map_err(|error| is_clear(&error)).ok()
    }

    /// The other holds the scope; the instance waits for it, or was cut or refused.
    async fn queued(&self) -> (Lease, tokio::task::JoinHandle<Result<Lease, Error>>) {
        let held = crate::soon(&self.other, &scope(), Mode::Exclusive).await;
        let behind = Arc::clone(&self.behind);
        let waiting = tokio::spawn(async move { behind.acquire(&scope(), Mode::Exclusive).await });
        until(PATIENCE, "it is queued, cut or refused", async || {
            waiting.is_finished() || !self.other.inspect(&scope()).await.expect("an answer").waiters.is_empty()
        })
        .await;
        (held, waiting)
    }
}

/// Retry, or stop: nothing else is to be done about a cut.
fn is_clear(error: &Error) {
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Lost(_)), "{error:?}");
}

async fn a_try_that_is_cut_at_any_message_leaves_nothing_held(stage: Stage) {
    let wire = Wire::new(&stage).await;
    wire.at_every_message(async || {
        match within(PATIENCE, "an answer", wire.behind.try_acquire(&scope(), Mode::Exclusive)).await {
            Ok(Some(lease)) => wire.excludes(&lease).await,
            // The server may not have noticed yet that the link is cut by which it was granted.
            Ok(None) => {}
            Err(error) => is_clear(&error),
        }
    })
    .await;
}

async fn an_acquire_that_is_cut_at_any_message_leaves_nothing_held(stage: Stage) {
    let wire = Wire::new(&stage).await;
    wire.at_every_message(async || {
        match within(PATIENCE, "an answer", wire.behind.acquire(&scope(), Mode::Exclusive)).await {
            Ok(lease) => wire.excludes(&lease).await,
            Err(error) => is_clear(&error),
        }
    })
    .await;
}

async fn a_shared_acquire_that_is_cut_at_any_message_leaves_nothing_held(stage: Stage) {
    let wire = Wire::new(&stage).await;
    wire.at_every_message(async || {
        match within(PATIENCE, "an answer", wire.behind.acquire(&scope(), Mode::Shared)).await {
            Ok(lease) => drop(lease),
            Err(error) => is_clear(&error),
        }
    })
    .await;
}

async fn a_wait_that_is_cut_at_any_message_leaves_nothing_held_or_queued(stage: Stage) {
    let wire = Wire::new(&stage).await;
    wire.at_every_message(async || {
        let (held, waiting) = wire.queued().await;
        held.release().await.expect("held to the end");
        match within(PATIENCE, "an answer", waiting).await.expect("no panic") {
            Ok(lease) => wire.excludes(&lease).await,
            Err(error) => is_clear(&error),
        }
    })
    .await;
}

async fn a_wait_that_is_dropped_at_any_message_leaves_nothing_held_or_queued(stage: Stage) {
    let wire = Wire::new(&stage).await;
    let queue_is_empty = async || {
        until(PATIENCE, "nobody waits", async || {
            wire.other.inspect(&scope()).await.expect("an answer").waiters.is_empty()
        })
        .await;
    };
    for messages in 0.. {
        wire.warm_up().await;
        let held = crate::soon(&wire.other, &scope(), Mode::Exclusive).await;
        wire.link.set(Fault::Silence, None, messages);
        let (subject, met) = (scope(), Duration::from_millis(300));
        let dropped = async {
            tokio::select! {
                () = wire.link.trapped() => true,
                _ = wire.behind.acquire(&subject, Mode::Exclusive) => panic!("another holds the scope"),
                () = tokio::time::sleep(met) => false,
            }
        }
        .await;
        wire.link.heal();
        if dropped {
            queue_is_empty().await;
        }
        held.release().await.expect("held to the end");
        is_free(&wire.other, &scope()).await;
        if !dropped {
            println!("measured: dropped at each of {messages} messages");
            assert!(messages >= 2, "a wait asks and is answered");
            break;
        }
    }
}

async fn a_release_that_is_cut_at_any_message_frees_the_scope(stage: Stage) {
    let wire = Wire::new(&stage).await;
    wire.at_every_message(async || {
        let Some(lease) = wire.held().await else { return };
        if let Err(error) = within(PATIENCE, "an answer", lease.release()).await {
            is_clear(&error);
        }
    })
    .await;
}

async fn a_verify_that_is_cut_at_any_message_never_vouches_for_a_lost_lease(stage: Stage) {
    let wire = Wire::new(&stage).await;
    wire.at_every_message(async || {
        let Some(lease) = wire.held().await else { return };
        match within(PATIENCE, "an answer", lease.verify(Duration::ZERO)).await {
            Ok(()) => wire.excludes(&lease).await,
            Err(error) => {
                is_clear(&error);
                wire.excludes(&lease).await;
            }
        }
    })
    .await;
}

async fn a_fence_that_is_cut_at_any_message_keeps_tokens_growing(stage: Stage) {
    let wire = Wire::new(&stage).await;
    let last = Mutex::new(FencingToken::new(0));
    wire.at_every_message(async || {
        let Some(lease) = wire.held().await else { return };
        match within(PATIENCE, "an answer", lease.fence()).await {
            Ok(token) => {
                let before = std::mem::replace(&mut *last.lock().expect("not poisoned"), token);
                assert!(before < token, "{token} after {before}");
            }
            Err(error) => is_clear(&error),
        }
    })
    .await;
}

async fn work_under_a_lock_that_is_cut_at_any_message_ends_and_frees_the_scope(stage: Stage) {
    let wire = Wire::new(&stage).await;
    wire.at_every_message(async || {
        let subject = scope();
        let working = under_lock(&wire.behind, &subject, Mode::Exclusive, async |lease| {
            lease.verify(Duration::ZERO).await?;
            let step = async { tokio::time::sleep(Duration::from_millis(5)).await };
            lease.irreversible(Duration::ZERO, step).await
        });
        if let Err(error) = within(PATIENCE, "an end", working).await {
            is_clear(&error);
        }
    })
    .await;
}

/// The caller goes away while one message of its round is held up on its way.
async fn what_is_dropped_at_any_message_leaves_nothing_held(stage: Stage) {
    let wire = Wire::new(&stage).await;
    for messages in 0.. {
        wire.warm_up().await;
        wire.link.set(Fault::Silence, None, messages);
        let subject = scope();
        let round = async {
            let lease = wire.behind.acquire(&subject, Mode::Exclusive).await?;
            lease.verify(Duration::ZERO).await?;
            lease.fence().await?;
            lease.release().await
        };
        let ended = async {
            tokio::select! {
                () = wire.link.trapped() => None,
                ended = round => Some(ended),
            }
        };
        let ended = within(PATIENCE, "an end", ended).await;
        wire.link.heal();
        is_free(&wire.other, &scope()).await;
        if let Some(ended) = ended {
            ended.expect("nothing was in its way");
            println!("measured: dropped at each of {messages} messages");
            assert!(messages >= 6, "four operations ask and are answered");
            break;
        }
    }
}
