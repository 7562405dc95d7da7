use super::{MOMENT, pairs};
use crate::{Handle, fresh_scope, is_free, soon};
use coordinator_core::{ErasureCoordinatorExt, Mode};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::task::JoinSet;

pairs![
    an_exclusive_lease_excludes_all_others,
    a_shared_lease_excludes_exclusive_ones_only,
    shared_leases_coexist_however_long_they_are_held,
    other_scopes_are_not_excluded,
    exclusion_holds_under_load,
    a_try_after_a_drop_in_the_same_task_succeeds,
    a_try_after_a_release_succeeds_on_the_other_handle,
    fencing_tokens_grow_with_every_call,
];

async fn an_exclusive_lease_excludes_all_others(one: Handle, two: Handle) {
    let scope = fresh_scope();
    for (one, two) in [(&one, &two), (&two, &one)] {
        let lease = soon(one, &scope, Mode::Exclusive).await;
        for mode in [Mode::Exclusive, Mode::Shared] {
            assert!(two.try_acquire(&scope, mode).await.expect("an answer").is_none());
            assert!(two.acquire_within(&scope, mode, MOMENT).await.expect("an answer").is_none());
        }
        lease.verify(Duration::from_secs(1)).await.expect("still held");
        lease.release().await.expect("held to the end");
        is_free(two, &scope).await;
    }
}

async fn a_shared_lease_excludes_exclusive_ones_only(one: Handle, two: Handle) {
    let scope = fresh_scope();
    let lease = soon(&one, &scope, Mode::Shared).await;
    for handle in [&one, &two] {
        assert!(handle.try_acquire(&scope, Mode::Exclusive).await.expect("an answer").is_none());
        drop(handle.try_acquire(&scope, Mode::Shared).await.expect("an answer").expect("shared leases coexist"));
    }
    // Last: over a network the one that gave up stays in the line for as long as it takes to leave it.
    assert!(two.acquire_within(&scope, Mode::Exclusive, MOMENT).await.expect("an answer").is_none());
    lease.release().await.expect("held to the end");
    is_free(&two, &scope).await;
}

async fn shared_leases_coexist_however_long_they_are_held(one: Handle, two: Handle) {
    let scope = fresh_scope();
    let _long = soon(&one, &scope, Mode::Shared).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    for handle in [&one, &two] {
        let begin = Instant::now();
        let lease = soon(handle, &scope, Mode::Shared).await;
        assert!(begin.elapsed() < Duration::from_millis(500), "waited {:?}", begin.elapsed());
        assert!(handle.try_acquire(&scope, Mode::Shared).await.expect("an answer").is_some());
        drop(lease);
    }
}

async fn other_scopes_are_not_excluded(one: Handle, two: Handle) {
    let mut leases = Vec::new();
    for _ in 0..50 {
        let lease = one.try_acquire(&fresh_scope(), Mode::Exclusive).await.expect("an answer");
        leases.push(lease.expect("nobody holds this one"));
        let lease = two.try_acquire(&fresh_scope(), Mode::Exclusive).await.expect("an answer");
        leases.push(lease.expect("nobody holds this one"));
    }
}

async fn exclusion_holds_under_load(one: Handle, two: Handle) {
    const EXCLUSIVE: u64 = 1 << 32;
    let inside = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let scopes = [fresh_scope(), fresh_scope()];
    let mut tasks = JoinSet::new();
    for task in 0..16_usize {
        let (handle, inside) = (Arc::clone(if task % 2 == 0 { &one } else { &two }), Arc::clone(&inside));
        tasks.spawn(async move {
            for round in 0..60 {
                let which = (task / 2 + round) % 2;
                let mode = if (task + round) % 3 == 0 { Mode::Exclusive } else { Mode::Shared };
                let lease = soon(&handle, &scopes[which], mode).await;
                let weight = if mode == Mode::Exclusive { EXCLUSIVE } else { 1 };
                let before = inside[which].fetch_add(weight, Ordering::SeqCst);
                assert!(before < EXCLUSIVE && (mode == Mode::Shared || before == 0), "{mode} beside {before:#x}");
                tokio::task::yield_now().await;
                inside[which].fetch_sub(weight, Ordering::SeqCst);
                if round % 2 == 0 {
                    lease.release().await.expect("held to the end");
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic");
    }
}

async fn a_try_after_a_drop_in_the_same_task_succeeds(one: Handle, _: Handle) {
    let scope = fresh_scope();
    let mut lease = soon(&one, &scope, Mode::Exclusive).await;
    for round in 0..500 {
        drop(lease);
        let mode = if round % 3 == 0 { Mode::Shared } else { Mode::Exclusive };
        let tried = one.try_acquire(&scope, mode).await.expect("an answer");
        lease = tried.unwrap_or_else(|| panic!("refused in round {round}"));
    }
}

async fn a_try_after_a_release_succeeds_on_the_other_handle(one: Handle, two: Handle) {
    let scope = fresh_scope();
    for _ in 0..100 {
        soon(&one, &scope, Mode::Exclusive).await.release().await.expect("held to the end");
        let tried = two.try_acquire(&scope, Mode::Exclusive).await.expect("an answer");
        tried.expect("it was released").release().await.expect("held to the end");
    }
}

async fn fencing_tokens_grow_with_every_call(one: Handle, two: Handle) {
    let scope = fresh_scope();
    let mut last = None;
    for mode in [Mode::Exclusive, Mode::Shared, Mode::Exclusive] {
        for handle in [&one, &two] {
            let lease = soon(handle, &scope, mode).await;
            for _ in 0..3 {
                let token = lease.fence().await.expect("a token");
                assert!(Some(token) > last, "{token} after {last:?}");
                last = Some(token);
            }
            lease.release().await.expect("held to the end");
        }
    }
}
