//! Alone in its process: what another test starts would be seen here.
#![cfg(target_os = "linux")]

use coordinator_local::{ErasureCoordinator, Error, LocalCoordinator, Mode, Scope, under_lock};
use futures_util::FutureExt;
use std::{fs, time::Duration};

#[test]
fn a_local_coordinator_starts_no_thread() {
    let (coordinator, scope) = (LocalCoordinator::new(), Scope::new("scope").expect("a valid name"));
    let lease = coordinator.acquire(&scope, Mode::Exclusive).now_or_never().expect("at once").expect("no failure");
    lease.verify(Duration::from_secs(1)).now_or_never().expect("at once").expect("held");
    assert_eq!(lease.fence().now_or_never().expect("at once").expect("a token").get(), 1);
    let waiter = coordinator.acquire(&scope, Mode::Shared);
    assert!(coordinator.try_acquire(&scope, Mode::Shared).now_or_never().expect("at once").expect("asked").is_none());
    assert_eq!(coordinator.inspect(&scope).now_or_never().expect("at once").expect("seen").holders.len(), 1);
    lease.release().now_or_never().expect("at once").expect("held to the end");
    drop(waiter.now_or_never().expect("handed on").expect("no failure"));
    let work = under_lock(&coordinator, &scope, Mode::Exclusive, async |_| Ok::<_, Error>(()));
    work.now_or_never().expect("at once").expect("no failure");
    let names: Vec<_> = fs::read_dir("/proc/self/task")
        .expect("the threads of this process")
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .collect();
    assert!(!names.is_empty() && names.iter().all(|name| !name.starts_with("coordinator")), "{names:?}");
}
