//! Instances that hammer one scope get about the same share.

use crate::support::{Deployment, Server, scope, soon, until};
use coordinator_postgres::{Mode, PostgresCoordinator, Scope};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

/// How long they hammer, once each had the scope a few times.
const TIME: Duration = Duration::from_secs(4);

async fn hammers(coordinator: Arc<PostgresCoordinator>, scope: Scope, start: Arc<Barrier>) -> (usize, Duration) {
    for _ in 0..3 {
        drop(soon(&coordinator, &scope, Mode::Exclusive).await);
    }
    start.wait().await;
    let (mut grants, mut longest, end) = (0, Duration::ZERO, Instant::now() + TIME);
    while Instant::now() < end {
        let begin = Instant::now();
        let lease = soon(&coordinator, &scope, Mode::Exclusive).await;
        longest = longest.max(begin.elapsed());
        grants += 1;
        drop(lease);
    }
    (grants, longest)
}

async fn shares(instances: usize, callers: usize) {
    let (deployment, scope) = (Deployment::new(), scope("subject"));
    let mut coordinators = Vec::new();
    for n in 0..instances {
        coordinators.push(deployment.connect(&format!("i{n}")).await);
    }
    let start = Arc::new(Barrier::new(instances * callers));
    let mut tasks = JoinSet::new();
    for (n, coordinator) in coordinators.iter().enumerate() {
        for _ in 0..callers {
            let hammering = hammers(Arc::clone(coordinator), scope, Arc::clone(&start));
            tasks.spawn(async move { (n, hammering.await) });
        }
    }
    let (mut grants, mut longest) = (vec![0; instances], Duration::ZERO);
    while let Some(done) = tasks.join_next().await {
        let (n, (count, wait)) = done.expect("no panic");
        grants[n] += count;
        longest = longest.max(wait);
    }
    println!("{instances} instances × {callers} callers: {grants:?}, longest wait {longest:?}");
    let (least, most) = (grants.iter().min().expect("some"), grants.iter().max().expect("some"));
    assert!(*least > 20 && *most <= 2 * *least, "{grants:?}");
    assert!(longest < Duration::from_secs(2), "{longest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_get_equal_shares() {
    shares(2, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_instances_get_equal_shares() {
    shares(4, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_with_many_callers_get_equal_shares() {
    shares(3, 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_tasks_on_one_scope_over_two_instances_are_all_served() {
    let (deployment, server, scope) = (Deployment::new(), Server::connect().await, scope("subject"));
    let instances = [deployment.connect("one").await, deployment.connect("two").await];
    let begin = Instant::now();
    let mut tasks = JoinSet::new();
    for task in 0..1_000 {
        let coordinator = Arc::clone(&instances[task % 2]);
        let mode = if task % 7 == 0 { Mode::Shared } else { Mode::Exclusive };
        tasks.spawn(async move { soon(&coordinator, &scope, mode).await.release().await });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("served").expect("held to the end");
    }
    println!("1,000 served in {:?}", begin.elapsed());
    until!("nothing is left", server.locks(&deployment.namespace, 2).await == 0);
}
