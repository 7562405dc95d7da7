use super::pairs;
use crate::{Handle, fresh_scope, is_free, soon};
use coordinator_core::{Error, ErrorKind, LossReason, Mode, under_lock};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

pairs![
    the_scope_is_held_during_the_work_and_free_after_it,
    the_error_of_the_work_wins,
    a_panic_of_the_work_frees,
    a_second_under_lock_in_the_same_task_is_an_error,
    it_can_be_spawned,
    a_loss_drops_the_work_and_is_told,
];

const MODES: [Mode; 2] = [Mode::Exclusive, Mode::Shared];

async fn the_scope_is_held_during_the_work_and_free_after_it(one: Handle, two: Handle) {
    let scope = fresh_scope();
    let done = under_lock(&one, &scope, Mode::Exclusive, async |lease| {
        lease.verify(Duration::from_secs(1)).await?;
        assert!(two.try_acquire(&scope, Mode::Shared).await?.is_none());
        lease.irreversible(Duration::ZERO, async { 7 }).await
    });
    assert_eq!(done.await.expect("no failure"), 7);
    is_free(&two, &scope).await;
}

async fn the_error_of_the_work_wins(one: Handle, two: Handle) {
    let scope = fresh_scope();
    let failed = || Error::new(ErrorKind::Invalid, "work", "on purpose");
    let done = under_lock(&one, &scope, Mode::Exclusive, async |_| Err::<(), _>(failed())).await;
    assert_eq!(done.expect_err("failed").operation(), "work");
    is_free(&two, &scope).await;
}

async fn a_panic_of_the_work_frees(one: Handle, two: Handle) {
    let scope = fresh_scope();
    let panics = tokio::spawn(async move {
        under_lock(&one, &scope, Mode::Exclusive, async |_| -> Result<(), Error> { panic!("on purpose") }).await
    });
    assert!(panics.await.expect_err("a panic").is_panic());
    is_free(&two, &scope).await;
}

async fn a_second_under_lock_in_the_same_task_is_an_error(one: Handle, two: Handle) {
    let (scope, other) = (fresh_scope(), fresh_scope());
    for outer in MODES {
        for inner in MODES {
            let nested = under_lock(&one, &scope, outer, async |_| {
                under_lock(&one, &other, inner, async |_| Ok::<_, Error>(())).await?;
                under_lock(&one, &scope, inner, async |_| Ok::<_, Error>(())).await
            });
            assert_eq!(nested.await.expect_err("refused").kind(), ErrorKind::Reentrant);
            is_free(&two, &scope).await;
        }
    }
}

async fn it_can_be_spawned(one: Handle, two: Handle) {
    let (scope, held) = (fresh_scope(), Arc::new(AtomicBool::new(false)));
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8 {
        let (handle, held) = (Arc::clone(if task % 2 == 0 { &one } else { &two }), Arc::clone(&held));
        tasks.spawn(async move {
            under_lock(&handle, &scope, Mode::Exclusive, async |lease| {
                assert!(!held.swap(true, Ordering::SeqCst));
                tokio::task::yield_now().await;
                held.store(false, Ordering::SeqCst);
                lease.ensure_live()
            })
            .await
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic").expect("no failure");
    }
}

async fn a_loss_drops_the_work_and_is_told(one: Handle, two: Handle) {
    struct Dropped(Arc<AtomicBool>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let (scope, dropped) = (fresh_scope(), Arc::new(AtomicBool::new(false)));
    let (working, works) = tokio::sync::oneshot::channel();
    let work = {
        let (one, dropped) = (Arc::clone(&one), Dropped(Arc::clone(&dropped)));
        tokio::spawn(async move {
            under_lock(&one, &scope, Mode::Exclusive, async move |_| {
                let _dropped = dropped;
                let _ = working.send(());
                std::future::pending::<Result<(), Error>>().await
            })
            .await
        })
    };
    works.await.expect("the work begins");
    one.shutdown(Duration::ZERO).await.expect("shut down");
    let error = work.await.expect("no panic").expect_err("lost");
    assert_eq!(error.kind(), ErrorKind::Lost(LossReason::ShutDown));
    assert!(dropped.load(Ordering::SeqCst));
    if !Arc::ptr_eq(&one, &two) {
        drop(soon(&two, &scope, Mode::Exclusive).await);
    }
}
