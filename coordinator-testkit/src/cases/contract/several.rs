use super::pairs;
use crate::{Handle, fresh_scope, is_free, soon};
use coordinator_core::{ErasureCoordinatorExt, ErrorKind, Lease, Mode};
use futures_util::poll;
use std::{sync::Arc, time::Duration};
use tokio::task::JoinSet;

pairs![
    opposite_orders_do_not_deadlock,
    a_scope_named_twice_is_refused,
    a_dropped_acquire_of_several_holds_none,
    several_are_lost_and_released_together,
];

async fn opposite_orders_do_not_deadlock(one: Handle, two: Handle) {
    let scopes: [_; 4] = std::array::from_fn(|_| (fresh_scope(), Mode::Exclusive));
    let mut tasks = JoinSet::new();
    for task in 0..4_usize {
        let handle = Arc::clone(if task % 2 == 0 { &one } else { &two });
        let mut wanted = scopes;
        wanted.rotate_left(task);
        tasks.spawn(async move {
            for _ in 0..25 {
                let leases = handle.acquire_all(&wanted).await.expect("no failure");
                assert_eq!(leases.len(), 4);
                for lease in leases.iter() {
                    lease.verify(Duration::from_secs(1)).await.expect("held");
                }
                tokio::task::yield_now().await;
                leases.release().await.expect("held to the end");
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic");
    }
}

async fn a_scope_named_twice_is_refused(one: Handle, two: Handle) {
    let (scope, other) = (fresh_scope(), fresh_scope());
    let wanted = [(scope, Mode::Shared), (other, Mode::Shared), (scope, Mode::Exclusive)];
    let error = one.acquire_all(&wanted).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    is_free(&two, &scope).await;
}

async fn a_dropped_acquire_of_several_holds_none(one: Handle, two: Handle) {
    let scopes = [fresh_scope(), fresh_scope(), fresh_scope()];
    for blocked in &scopes {
        let holder = soon(&two, blocked, Mode::Shared).await;
        let wanted = scopes.map(|scope| (scope, Mode::Exclusive));
        let mut acquire = one.acquire_all(&wanted);
        for _ in 0..20 {
            assert!(poll!(&mut acquire).is_pending());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(acquire);
        drop(holder);
        for scope in &scopes {
            is_free(&two, scope).await;
        }
    }
}

async fn several_are_lost_and_released_together(one: Handle, two: Handle) {
    let wanted = [(fresh_scope(), Mode::Exclusive), (fresh_scope(), Mode::Shared)];
    let leases = one.acquire_all(&wanted).await.expect("no failure");
    leases.irreversible(Duration::ZERO, async {}).await.expect("it ran");
    leases.release().await.expect("held to the end");
    for (scope, _) in &wanted {
        is_free(&two, scope).await;
    }
    let leases = one.acquire_all(&wanted).await.expect("no failure");
    let told = leases.iter().map(Lease::lost).collect::<Vec<_>>();
    assert_eq!(one.shutdown(Duration::ZERO).await.expect("shut down").left.len(), 2);
    futures_util::future::join_all(told).await;
    assert!(leases.ensure_live().is_err());
    assert!(leases.release().await.expect_err("lost").is_lost());
}
