use super::pairs;
use crate::{Handle, PATIENCE, fresh_scope, soon};
use coordinator_core::{Mode, Scope};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::task::JoinSet;

pairs![
    a_flow_of_shared_leases_does_not_starve_an_exclusive_waiter,
    a_flow_of_exclusive_leases_does_not_starve_a_shared_waiter,
];

async fn a_flow_of_shared_leases_does_not_starve_an_exclusive_waiter(one: Handle, two: Handle) {
    a_flow_does_not_starve(Mode::Shared, Mode::Exclusive, one, two).await;
}

async fn a_flow_of_exclusive_leases_does_not_starve_a_shared_waiter(one: Handle, two: Handle) {
    a_flow_does_not_starve(Mode::Exclusive, Mode::Shared, one, two).await;
}

async fn a_flow_does_not_starve(flow: Mode, waiter: Mode, one: Handle, two: Handle) {
    let (scope, stop, passed) = (fresh_scope(), Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for handle in [&one, &two, &one, &two] {
        tasks.spawn(flows(Arc::clone(handle), scope, flow, Arc::clone(&stop), Arc::clone(&passed)));
    }
    while passed.load(Ordering::Relaxed) < 20 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for handle in [&one, &two, &one] {
        let lease = tokio::time::timeout(PATIENCE, handle.acquire(&scope, waiter)).await;
        drop(lease.expect("not starved").expect("no failure"));
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic");
    }
}

/// Holds the scope again and again, mostly: without a queue there is no gap for anybody else.
async fn flows(handle: Handle, scope: Scope, mode: Mode, stop: Arc<AtomicBool>, passed: Arc<AtomicUsize>) {
    while !stop.load(Ordering::Relaxed) {
        let lease = soon(&handle, &scope, mode).await;
        tokio::time::sleep(Duration::from_millis(3)).await;
        passed.fetch_add(1, Ordering::Relaxed);
        drop(lease);
    }
}
