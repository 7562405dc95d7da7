use super::pairs;
use crate::{Handle, PATIENCE, fresh_scope, somebody_waits, soon};
use coordinator_core::{ErrorKind, Mode};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

pairs![new_requests_and_waiters_are_refused, leases_are_waited_for, what_is_left_is_told_lost_and_freed,];

async fn new_requests_and_waiters_are_refused(one: Handle, _: Handle) {
    let scope = fresh_scope();
    let lease = soon(&one, &scope, Mode::Exclusive).await;
    let waiter = {
        let one = Arc::clone(&one);
        tokio::spawn(async move { one.acquire(&scope, Mode::Shared).await.map(drop) })
    };
    somebody_waits(&one, &scope).await;
    let shutdown = {
        let one = Arc::clone(&one);
        tokio::spawn(async move { one.shutdown(PATIENCE).await })
    };
    assert_eq!(waiter.await.expect("no panic").expect_err("refused").kind(), ErrorKind::ShutDown);
    for scope in [scope, fresh_scope()] {
        assert_eq!(one.acquire(&scope, Mode::Shared).await.expect_err("refused").kind(), ErrorKind::ShutDown);
        assert_eq!(one.try_acquire(&scope, Mode::Shared).await.expect_err("refused").kind(), ErrorKind::ShutDown);
    }
    lease.ensure_live().expect("the limit has not passed");
    lease.release().await.expect("held to the end");
    assert!(shutdown.await.expect("no panic").expect("shut down").left.is_empty());
}

async fn leases_are_waited_for(one: Handle, _: Handle) {
    let lease = soon(&one, &fresh_scope(), Mode::Shared).await;
    let begin = Instant::now();
    let work = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        lease.release().await.expect("held to the end");
    });
    assert!(one.shutdown(PATIENCE).await.expect("shut down").left.is_empty());
    assert!((Duration::from_millis(100)..PATIENCE / 2).contains(&begin.elapsed()), "{:?}", begin.elapsed());
    work.await.expect("no panic");
    assert!(one.shutdown(PATIENCE).await.expect("again").left.is_empty());
}

async fn what_is_left_is_told_lost_and_freed(one: Handle, two: Handle) {
    let (scope, other) = (fresh_scope(), fresh_scope());
    let lease = soon(&one, &scope, Mode::Exclusive).await;
    drop(soon(&one, &other, Mode::Exclusive).await);
    let left = one.shutdown(Duration::from_millis(30)).await.expect("shut down").left;
    let left: Vec<_> = left.iter().map(|left| (left.scope, left.mode, left.leases)).collect();
    assert_eq!(left, [(scope, Mode::Exclusive, 1)]);
    assert!(lease.ensure_live().expect_err("lost").is_lost());
    if !Arc::ptr_eq(&one, &two) {
        drop(soon(&two, &scope, Mode::Exclusive).await); // also while the lost lease lives on
    }
    drop(lease);
}
