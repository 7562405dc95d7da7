//! The link is cut before, within and after every message of every operation.

use crate::kit::environment::{builder, coordinator, scope, unique, url};
use crate::kit::proxy::{Fault, Proxy, Trap, link_to, way};
use coordinator_postgres::{
    ErasureCoordinator, ErasureCoordinatorExt, Error, ErrorKind, Lease, Mode, PostgresCoordinator, under_lock,
};
use coordinator_testkit::{until, within};
use std::sync::Arc;
use std::time::Duration;

crate::trials![
    a_try_that_is_cut_at_any_message_leaves_nothing_held,
    an_acquire_that_is_cut_at_any_message_leaves_nothing_held,
    a_wait_that_is_cut_at_any_message_leaves_nothing_held_or_queued,
    a_release_that_is_cut_at_any_message_frees_the_scope,
    a_verify_that_is_cut_at_any_message_never_vouches_for_a_lost_lease,
    a_fence_that_is_cut_at_any_message_keeps_tokens_growing,
    work_under_a_lock_that_is_cut_at_any_message_ends_and_frees_the_scope,
];

const FAULTS: [Fault; 4] = [Fault::Cut, Fault::Drop, Fault::Truncate(3), Fault::Truncate(usize::MAX)];
const SOON: Duration = Duration::from_secs(5);

/// An instance behind a link, and another that is not.
struct Link {
    proxy: Proxy,
    behind: Arc<PostgresCoordinator>,
    other: PostgresCoordinator,
}

impl Link {
    async fn new() -> Self {
        let (proxy, namespace) = (link_to(&url()).await, unique("wire"));
        let behind = builder(&way(&proxy, &url()), &namespace).connect().await.expect("the server is there");
        Self { proxy, behind: Arc::new(behind), other: coordinator(&url(), &namespace).await }
    }

    /// The link is whole and the sessions are open.
    async fn warm_up(&self) {
        self.proxy.heal();
        until(SOON, "the instance is connected again", async || {
            match self.behind.acquire(&scope("warm"), Mode::Exclusive).await {
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
                self.proxy.set(Trap { fault, of: None, after: messages });
                operation().await;
                if !self.proxy.heal() {
                    break;
                }
                self.is_free().await;
                messages += 1;
            }
            println!("measured: {fault:?} at each of {messages} messages");
            assert!(messages >= 2, "an operation asks and is answered");
        }
    }

    async fn is_free(&self) {
        let free = self.other.acquire_within(&scope("s"), Mode::Exclusive, SOON).await.expect("the server is there");
        free.expect("the scope is free soon").release().await.expect("held to the end");
    }

    /// Whoever believes in a lease after the server vouched for it excludes the other.
    async fn excludes(&self, lease: &Lease) {
        self.proxy.heal();
        if lease.verify(Duration::ZERO).await.is_ok() {
            let other = self.other.try_acquire(&scope("s"), Mode::Shared).await.expect("the server is there");
            assert!(other.is_none() || lease.ensure_live().is_err(), "two holders");
        }
    }
}

/// Retry, or stop: nothing else is to be done about a cut.
fn is_clear(error: &Error) {
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Lost(_)), "{error:?}");
}

async fn a_try_that_is_cut_at_any_message_leaves_nothing_held() {
    let link = Link::new().await;
    link.at_every_message(async || {
        let tried = within(SOON, "an answer", link.behind.try_acquire(&scope("s"), Mode::Exclusive)).await;
        match tried {
            Ok(Some(lease)) => link.excludes(&lease).await,
            Ok(None) => panic!("nobody else holds the scope"),
            Err(error) => is_clear(&error),
        }
    })
    .await;
}

async fn an_acquire_that_is_cut_at_any_message_leaves_nothing_held() {
    let link = Link::new().await;
    for mode in [Mode::Exclusive, Mode::Shared] {
        link.at_every_message(async || match within(SOON, "an answer", link.behind.acquire(&scope("s"), mode)).await {
            Ok(lease) if mode == Mode::Exclusive => link.excludes(&lease).await,
            Ok(lease) => drop(lease),
            Err(error) => is_clear(&error),
        })
        .await;
    }
}

async fn a_wait_that_is_cut_at_any_message_leaves_nothing_held_or_queued() {
    let link = Link::new().await;
    link.at_every_message(async || {
        let held = within(SOON, "the other", link.other.acquire(&scope("s"), Mode::Exclusive)).await.expect("granted");
        let behind = Arc::clone(&link.behind);
        let waiting = tokio::spawn(async move { behind.acquire(&scope("s"), Mode::Exclusive).await });
        until(SOON, "it is queued, cut or refused", async || {
            let seen = link.other.inspect(&scope("s")).await.expect("the server is there");
            waiting.is_finished() || !seen.waiters.is_empty()
        })
        .await;
        held.release().await.expect("held to the end");
        match within(2 * SOON, "an answer", waiting).await.expect("no panic") {
            Ok(lease) => link.excludes(&lease).await,
            Err(error) => is_clear(&error),
        }
    })
    .await;
}

async fn held(link: &Link) -> Option<Lease> {
    // The trap may meet the acquire; the operation itself is met in later rounds.
    link.behind.acquire(&scope("s"), Mode::Exclusive).await.map_err(|error| is_clear(&error)).ok()
}

async fn a_release_that_is_cut_at_any_message_frees_the_scope() {
    let link = Link::new().await;
    link.at_every_message(async || {
        let Some(lease) = held(&link).await else { return };
        if let Err(error) = within(SOON, "an answer", lease.release()).await {
            is_clear(&error);
        }
    })
    .await;
}

async fn a_verify_that_is_cut_at_any_message_never_vouches_for_a_lost_lease() {
    let link = Link::new().await;
    link.at_every_message(async || {
        let Some(lease) = held(&link).await else { return };
        match within(SOON, "an answer", lease.verify(Duration::from_secs(1))).await {
            Ok(()) => link.excludes(&lease).await,
            Err(error) => {
                is_clear(&error);
                within(SOON, "the loss is told", lease.lost()).await;
                assert!(lease.ensure_live().is_err() && lease.release().await.is_err_and(|error| error.is_lost()));
            }
        }
    })
    .await;
}

async fn a_fence_that_is_cut_at_any_message_keeps_tokens_growing() {
    let link = Link::new().await;
    let last = std::sync::Mutex::new(None);
    link.at_every_message(async || {
        let Some(lease) = held(&link).await else { return };
        match within(SOON, "an answer", lease.fence()).await {
            Ok(token) => {
                let before = last.lock().expect("not poisoned").replace(token);
                assert!(before < Some(token), "{before:?} {token}");
            }
            Err(error) => is_clear(&error),
        }
    })
    .await;
}

async fn work_under_a_lock_that_is_cut_at_any_message_ends_and_frees_the_scope() {
    let link = Link::new().await;
    link.at_every_message(async || {
        let subject = scope("s");
        let working = under_lock(&link.behind, &subject, Mode::Exclusive, async |lease| {
            lease.verify(Duration::from_secs(1)).await?;
            lease
                .irreversible(Duration::from_secs(1), async { tokio::time::sleep(Duration::from_millis(5)).await })
                .await
        });
        if let Err(error) = within(SOON, "an end", working).await {
            is_clear(&error);
        }
    })
    .await;
}
