//! What `LocalCoordinator` promises beyond the conformance suite.

use coordinator_local::{Distributed, ErasureCoordinator, LocalCoordinator, Mode, Scope};
use std::sync::Arc;

#[tokio::test]
async fn scopes_that_nobody_holds_cost_no_memory() {
    let coordinator = LocalCoordinator::new();
    let mut held = Vec::new();
    for name in 0..100_000 {
        let scope = Scope::new(name.to_string()).expect("a valid name");
        held.push(coordinator.acquire(&scope, Mode::Exclusive).await.expect("no failure"));
    }
    assert_eq!(coordinator.scopes(), 100_000);
    drop(held);
    assert_eq!(coordinator.scopes(), 0);
}

#[test]
fn it_is_refused_where_instances_share_a_store() {
    let coordinator = LocalCoordinator::default();
    assert!(!coordinator.is_distributed());
    let refused = Distributed::new(Arc::new(coordinator)).expect_err("refused");
    assert!(refused.to_string().contains("LocalCoordinator"), "{refused}");
}

#[test]
fn two_coordinators_do_not_know_each_other() {
    let (one, two) = (LocalCoordinator::new(), LocalCoordinator::new());
    let scope = Scope::new("scope").expect("a valid name");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let lease = runtime.block_on(one.acquire(&scope, Mode::Exclusive)).expect("no failure");
    assert!(runtime.block_on(two.try_acquire(&scope, Mode::Exclusive)).expect("an answer").is_some());
    drop(lease);
}
