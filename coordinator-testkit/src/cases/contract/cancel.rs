use super::pairs;
use crate::{Handle, fresh_scope, is_free, somebody_waits, soon};
use coordinator_core::{ErasureCoordinatorExt, Mode};
use futures_util::poll;
use std::{sync::Arc, time::Duration};
use tokio::task::JoinSet;

pairs![
    a_dropped_acquire_leaves_nothing_held_after_any_number_of_polls,
    a_dropped_waiter_is_out_of_the_way_after_any_number_of_polls,
    a_dropped_exclusive_waiter_lets_shared_ones_in,
    a_storm_of_time_outs_strands_nobody,
    an_aborted_holder_frees,
];

const MODES: [Mode; 2] = [Mode::Exclusive, Mode::Shared];

async fn a_dropped_acquire_leaves_nothing_held_after_any_number_of_polls(one: Handle, two: Handle) {
    for mode in MODES {
        for polls in 0..40_u64 {
            let scope = fresh_scope();
            let mut acquire = one.acquire(&scope, mode);
            for n in 0..polls {
                if poll!(&mut acquire).is_ready() {
                    break; // and the lease dropped with the answer
                }
                // The backend's answer comes somewhere in between.
                tokio::time::sleep(Duration::from_micros(n * 5)).await;
            }
            drop(acquire);
            is_free(&two, &scope).await;
        }
    }
}

async fn a_dropped_waiter_is_out_of_the_way_after_any_number_of_polls(one: Handle, two: Handle) {
    for mode in MODES {
        for polls in 0..12_u64 {
            let scope = fresh_scope();
            let holder = soon(&two, &scope, Mode::Exclusive).await;
            let mut acquire = one.acquire(&scope, mode);
            for n in 0..polls {
                assert!(poll!(&mut acquire).is_pending());
                tokio::time::sleep(Duration::from_micros(n * 100)).await;
            }
            if polls % 2 == 0 {
                drop(acquire);
                drop(holder);
            } else {
                drop(holder); // it may be granted what it does not come for any more
                drop(acquire);
            }
            is_free(&two, &scope).await;
        }
    }
}

async fn a_dropped_exclusive_waiter_lets_shared_ones_in(one: Handle, two: Handle) {
    for handle in [&one, &two] {
        let scope = fresh_scope();
        let _holder = soon(&one, &scope, Mode::Shared).await;
        let mut exclusive = handle.acquire(&scope, Mode::Exclusive);
        assert!(poll!(&mut exclusive).is_pending());
        somebody_waits(handle, &scope).await;
        let behind = {
            let (handle, scope) = (Arc::clone(handle), scope);
            tokio::spawn(async move { soon(&handle, &scope, Mode::Shared).await })
        };
        tokio::time::sleep(Duration::from_millis(10)).await;
        drop(exclusive);
        drop(behind.await.expect("let in"));
    }
}

async fn a_storm_of_time_outs_strands_nobody(one: Handle, two: Handle) {
    let scope = fresh_scope();
    let mut tasks = JoinSet::new();
    for task in 0..6_u64 {
        let handle = Arc::clone(if task % 2 == 0 { &one } else { &two });
        tasks.spawn(async move {
            for round in 0..300_u64 {
                let mode = if (task + round) % 3 == 0 { Mode::Shared } else { Mode::Exclusive };
                let limit = Duration::from_micros(500 + (task * 7919 + round * 104_729) % 2500);
                let lease = handle.acquire_within(&scope, mode, limit).await.expect("no failure");
                if let Some(lease) = lease
                    && round % 4 == 0
                {
                    lease.release().await.expect("held to the end");
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic");
    }
    is_free(&one, &scope).await;
    is_free(&two, &scope).await;
}

async fn an_aborted_holder_frees(one: Handle, two: Handle) {
    let scope = fresh_scope();
    let (held, is_held) = tokio::sync::oneshot::channel();
    let holder = tokio::spawn(async move {
        let _lease = soon(&one, &scope, Mode::Exclusive).await;
        held.send(()).expect("awaited");
        std::future::pending::<()>().await;
    });
    is_held.await.expect("held");
    assert!(two.try_acquire(&scope, Mode::Shared).await.expect("an answer").is_none());
    holder.abort();
    is_free(&two, &scope).await;
}
