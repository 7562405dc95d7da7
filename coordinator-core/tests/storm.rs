//! Many threads, many callers that give up, one scope.

mod scripted;

use coordinator_core::Mode::{Exclusive, Shared};
use coordinator_core::{Cohort, ErasureCoordinator, Upkeep};
use scripted::rig::{options, scope};
use scripted::{Backed, Scripted};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::task::Poll;
use std::time::{Duration, Instant};

const WRITERS: i64 = 1_000;

/// The future's output, unless it is still pending after some polls.
async fn unless_it_takes_long<T>(mut polls: u64, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    std::future::poll_fn(move |cx| match future.as_mut().poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending if polls == 0 => Poll::Ready(None),
        Poll::Pending => {
            polls -= 1;
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

#[test]
fn callers_that_give_up_at_any_moment_leave_nothing_and_let_nobody_in() {
    for window in [Duration::ZERO, Duration::from_millis(1)] {
        let mut options = options(window, Duration::from_millis(2));
        options.upkeep = Upkeep::Process;
        let coordinator = Arc::new(Backed(Cohort::new(Scripted::default(), options)));
        coordinator.0.driver().script().automatic = true;
        let inside = Arc::new(AtomicI64::new(0));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
        let tasks: Vec<_> =
            (1..=32_u64).map(|seed| runtime.spawn(caller(seed, coordinator.clone(), inside.clone()))).collect();
        runtime.block_on(async {
            for task in tasks {
                task.await.expect("no panic");
            }
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        while coordinator.0.scopes() > 0 {
            assert!(Instant::now() < deadline, "left: {:?}", coordinator.0);
            std::thread::yield_now();
        }
        coordinator.0.driver().assert_promises_kept();
        assert_eq!(coordinator.0.driver().live(), []);
    }
}

async fn caller(seed: u64, coordinator: Arc<Backed>, inside: Arc<AtomicI64>) {
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for _ in 0..400 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let (mode, weight) = if random.is_multiple_of(3) { (Exclusive, WRITERS) } else { (Shared, 1) };
        let scope = scope("s");
        let lease = if random.is_multiple_of(5) {
            unless_it_takes_long(random % 40, coordinator.try_acquire(&scope, mode))
                .await
                .transpose()
                .map(Option::flatten)
        } else {
            unless_it_takes_long(random % 40, coordinator.acquire(&scope, mode)).await.transpose()
        };
        let Some(lease) = lease.expect("no error") else { continue };
        let before = inside.fetch_add(weight, SeqCst);
        assert!(if mode == Exclusive { before == 0 } else { before < WRITERS }, "exclusion: {before}");
        tokio::task::yield_now().await;
        inside.fetch_sub(weight, SeqCst);
        if random.is_multiple_of(7) {
            unless_it_takes_long(random % 4, lease.release()).await.transpose().expect("released");
        }
    }
}
