use super::pairs;
use crate::{Handle, fresh_scope, is_free, soon};
use coordinator_core::{ErrorKind, LossReason, Mode};
use std::{sync::Arc, time::Duration};

pairs![
    a_released_scope_is_free,
    a_dropped_lease_frees,
    a_panic_frees,
    a_dropped_runtime_frees,
    a_lost_lease_says_so_everywhere,
];

const LOST: ErrorKind = ErrorKind::Lost(LossReason::ShutDown);

async fn a_released_scope_is_free(one: Handle, two: Handle) {
    let scope = fresh_scope();
    for mode in [Mode::Exclusive, Mode::Shared] {
        soon(&one, &scope, mode).await.release().await.expect("held to the end");
        is_free(&two, &scope).await;
    }
}

async fn a_dropped_lease_frees(one: Handle, two: Handle) {
    let scope = fresh_scope();
    for mode in [Mode::Exclusive, Mode::Shared] {
        drop(soon(&one, &scope, mode).await);
        is_free(&two, &scope).await;
    }
}

async fn a_panic_frees(one: Handle, two: Handle) {
    let scope = fresh_scope();
    let panics = tokio::spawn(async move {
        let _lease = soon(&one, &scope, Mode::Exclusive).await;
        std::panic::panic_any("on purpose");
    });
    assert!(panics.await.is_err());
    is_free(&two, &scope).await;
}

async fn a_dropped_runtime_frees(one: Handle, two: Handle) {
    let scope = fresh_scope();
    let holds = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let (granted, is_granted) = tokio::sync::oneshot::channel();
        let task = Arc::clone(&one);
        runtime.spawn(async move {
            let _lease = soon(&task, &scope, Mode::Exclusive).await;
            granted.send(()).expect("awaited");
            std::future::pending::<()>().await;
        });
        runtime.spawn(async move { drop(soon(&one, &scope, Mode::Exclusive).await) });
        runtime.block_on(is_granted).ok();
        drop(runtime); // with a holder and a waiter
    });
    tokio::task::spawn_blocking(|| holds.join()).await.expect("no panic").expect("no panic");
    is_free(&two, &scope).await;
}

async fn a_lost_lease_says_so_everywhere(one: Handle, _: Handle) {
    let scope = fresh_scope();
    let (lease, other) = (soon(&one, &scope, Mode::Shared).await, soon(&one, &scope, Mode::Shared).await);
    assert!(lease.remaining() > Duration::ZERO);
    let told = tokio::spawn(lease.lost());
    let left = one.shutdown(Duration::ZERO).await.expect("shut down").left;
    assert_eq!((left.len(), left[0].scope, left[0].mode, left[0].leases), (1, scope, Mode::Shared, 2));
    assert_eq!(told.await.expect("no panic"), LossReason::ShutDown);
    assert_eq!(lease.remaining(), Duration::ZERO);
    assert_eq!(lease.ensure_live().expect_err("lost").kind(), LOST);
    assert_eq!(lease.verify(Duration::ZERO).await.expect_err("lost").kind(), LOST);
    assert_eq!(lease.fence().await.expect_err("lost").kind(), LOST);
    assert_eq!(lease.release().await.expect_err("lost").kind(), LOST);
    drop(other);
}
