//! `PostgresCoordinator` keeps the contract, alone and with a second instance.

// The cases are written against what every backend re-exports.
extern crate coordinator_postgres as coordinator_local;

#[path = "../../coordinator-local/tests/contract/mod.rs"]
mod contract;
mod support;

use contract::{Handle, contract};
use std::sync::Arc;
use support::Deployment;

async fn twice_the_same() -> (Handle, Handle, Deployment) {
    let deployment = Deployment::new();
    let one: Handle = deployment.connect("one").await;
    (Arc::clone(&one), one, deployment)
}

async fn two_instances() -> (Handle, Handle, Deployment) {
    let deployment = Deployment::new();
    (deployment.connect("one").await, deployment.connect("two").await, deployment)
}

contract!(one_coordinator, twice_the_same().await);
contract!(two_instances_of_a_deployment, two_instances().await);
