use super::{MOMENT, pairs};
use crate::{Handle, fresh_scope, is_free, soon};
use coordinator_core::{ErasureCoordinatorExt, ErrorKind, LossReason, Mode, Scope};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::sync::oneshot;

pairs![
    a_dropped_caller_neither_cancels_nor_frees,
    an_aborted_task_neither_cancels_nor_frees,
    a_dropped_runtime_neither_cancels_nor_frees,
    a_release_waits_for_the_step,
    a_step_on_a_lost_lease_never_begins,
];

/// A step that says when it runs, and ends when it is told to.
struct Step {
    runs: oneshot::Receiver<()>,
    end: oneshot::Sender<()>,
    ended: Arc<AtomicBool>,
}

impl Step {
    fn new() -> (Self, impl Future<Output = u8> + Send + 'static) {
        let ((run, runs), (end, ends), ended) =
            (oneshot::channel(), oneshot::channel::<()>(), Arc::new(AtomicBool::new(false)));
        let told = Arc::clone(&ended);
        let step = async move {
            run.send(()).expect("awaited");
            ends.await.expect("told to end");
            told.store(true, Ordering::SeqCst);
            7
        };
        (Self { runs, end, ended }, step)
    }

    async fn runs(&mut self) {
        (&mut self.runs).await.expect("the step runs");
    }

    /// Held while it runs, free when it has ended.
    async fn keeps(self, scope: &Scope, handle: &Handle) {
        assert!(handle.acquire_within(scope, Mode::Shared, MOMENT).await.expect("an answer").is_none());
        assert!(!self.ended.load(Ordering::SeqCst));
        self.end.send(()).expect("it runs");
        is_free(handle, scope).await;
        assert!(self.ended.load(Ordering::SeqCst), "freed before the step had ended");
    }
}

async fn a_dropped_caller_neither_cancels_nor_frees(one: Handle, two: Handle) {
    let (scope, (mut watched, step)) = (fresh_scope(), Step::new());
    let lease = soon(&one, &scope, Mode::Exclusive).await;
    tokio::select! {
        _ = lease.irreversible(Duration::ZERO, step) => panic!("it has not ended"),
        () = watched.runs() => {}
    }
    drop(lease);
    watched.keeps(&scope, &two).await;
}

async fn an_aborted_task_neither_cancels_nor_frees(one: Handle, two: Handle) {
    let (scope, (mut watched, step)) = (fresh_scope(), Step::new());
    let caller = tokio::spawn(async move {
        let lease = soon(&one, &scope, Mode::Exclusive).await;
        let _ = lease.irreversible(Duration::ZERO, step).await;
    });
    watched.runs().await;
    caller.abort();
    assert!(caller.await.expect_err("aborted").is_cancelled());
    watched.keeps(&scope, &two).await;
}

async fn a_dropped_runtime_neither_cancels_nor_frees(one: Handle, two: Handle) {
    let (scope, (mut watched, step)) = (fresh_scope(), Step::new());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    runtime.spawn(async move {
        let lease = soon(&one, &scope, Mode::Exclusive).await;
        let _ = lease.irreversible(Duration::ZERO, step).await;
    });
    watched.runs().await;
    tokio::task::spawn_blocking(move || drop(runtime)).await.expect("no panic");
    watched.keeps(&scope, &two).await;
}

async fn a_release_waits_for_the_step(one: Handle, two: Handle) {
    let (scope, (mut watched, step)) = (fresh_scope(), Step::new());
    let lease = soon(&one, &scope, Mode::Exclusive).await;
    tokio::select! {
        _ = lease.irreversible(Duration::ZERO, step) => panic!("it has not ended"),
        () = watched.runs() => {}
    }
    let ended = Arc::clone(&watched.ended);
    let release = tokio::spawn(async move {
        lease.release().await.expect("held to the end");
        assert!(ended.load(Ordering::SeqCst), "released while the step ran");
    });
    watched.keeps(&scope, &two).await;
    release.await.expect("no panic");
}

async fn a_step_on_a_lost_lease_never_begins(one: Handle, _: Handle) {
    let scope = fresh_scope();
    let lease = soon(&one, &scope, Mode::Exclusive).await;
    assert_eq!(lease.irreversible(Duration::from_secs(1), async { 7 }).await.expect("it ran"), 7);
    one.shutdown(Duration::ZERO).await.expect("shut down");
    let error = lease.irreversible(Duration::ZERO, async { panic!("it began") }).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Lost(LossReason::ShutDown));
}
