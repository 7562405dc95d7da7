use super::pairs;
use crate::{Handle, PATIENCE, fresh_scope, is_free, soon};
use coordinator_core::{Inspection, Mode, Scope};
use std::{sync::Arc, time::Duration};
use tokio::task::JoinSet;

pairs![looking_takes_nothing, holders_and_waiters_are_seen,];

async fn looking_takes_nothing(one: Handle, two: Handle) {
    let scope = fresh_scope();
    let mut probers = JoinSet::new();
    for prober in 0..20 {
        let handle = Arc::clone(if prober % 2 == 0 { &one } else { &two });
        probers.spawn(async move {
            for _ in 0..20 {
                let found = handle.inspect(&scope).await.expect("an answer");
                assert!(found.is_free(), "{found:?}");
            }
        });
    }
    while let Some(done) = probers.join_next().await {
        done.expect("no panic");
    }
}

async fn holders_and_waiters_are_seen(one: Handle, two: Handle) {
    let scope = fresh_scope();
    for (holds, other) in [(&one, &two), (&two, &one)] {
        for mode in [Mode::Shared, Mode::Exclusive] {
            let lease = soon(holds, &scope, mode).await;
            for handle in [&one, &two] {
                let found = handle.inspect(&scope).await.expect("an answer");
                let modes: Vec<_> = found.holders.iter().map(|holder| holder.mode).collect();
                assert_eq!(modes, [Some(mode)]);
                assert!(found.waiters.is_empty());
            }
            let waiter = {
                let (other, scope) = (Arc::clone(other), scope);
                tokio::spawn(async move { drop(soon(&other, &scope, Mode::Exclusive).await) })
            };
            for handle in [&one, &two] {
                until(handle, &scope, |found| found.waiters.len() == 1).await;
            }
            lease.release().await.expect("held to the end");
            waiter.await.expect("served");
            until(holds, &scope, Inspection::is_free).await;
            is_free(holds, &scope).await;
        }
    }
}

async fn until(handle: &Handle, scope: &Scope, seen: impl Fn(&Inspection) -> bool) {
    tokio::time::timeout(PATIENCE, async {
        while !seen(&handle.inspect(scope).await.expect("an answer")) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("seen");
}
