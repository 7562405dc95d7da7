use super::{
    audit::Violations,
    failure::Failure,
    memory_store::MemoryStore,
    options::Options,
    phase::{Lock, Phase, collect},
    plane::Plane,
    store::Store as _,
    vault::Vault,
    worker::{WORKERS, Worker},
};
use coordinator_core::ErasureCoordinator;
use coordinator_local::LocalCoordinator;
use indicatif::ProgressBar;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// A phase without a server: instances are groups of tasks beside a store in memory.
pub(crate) async fn run(options: &Options, lock: Lock, progress: &ProgressBar) -> Result<Phase, Failure> {
    let (vault, store) = (Vault::new(), Arc::new(MemoryStore::default()));
    let (sender, events) = mpsc::unbounded_channel();
    let (stop, workers) = (CancellationToken::new(), TaskTracker::new());
    let local = || -> Arc<dyn ErasureCoordinator> { Arc::new(LocalCoordinator::new()) };
    let shared = local();
    for _ in 0..options.instances {
        let coordinator = match lock {
            Lock::Unprotected => local(),
            Lock::Protected => Arc::clone(&shared),
        };
        let plane = Arc::new(Plane::new(coordinator, Arc::clone(&store) as _, Arc::new(vault.clone()), "drill"));
        for _ in 0..WORKERS {
            let worker = Worker {
                plane: Arc::clone(&plane),
                subjects: options.subjects,
                events: sender.clone(),
                stop: stop.clone(),
            };
            workers.spawn(worker.run());
        }
    }
    drop(sender);
    let (ledger, lasted) = collect(events, options.length(), lock, &stop, progress).await;
    workers.close();
    workers.wait().await;
    vault.settle().await;
    let violations = Violations::count(&ledger, &store.evidence().await?, &vault);
    Ok(Phase { ledger, violations, lasted, killed: 0 })
}
