//! Instances that hammer one scope get about the same share.

use crate::support::{Deployment, Server, patient, scope, soon, until};
use coordinator_postgres::{ErasureCoordinator, Mode, PostgresCoordinator, Scope};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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

/// The grants of each instance, most first, and the longest wait.
async fn shares(instances: usize, callers: usize) -> (Vec<usize>, Duration) {
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
    grants.sort_by(|a, b| b.cmp(a));
    (grants, longest)
}

async fn shares_are_equal(instances: usize, callers: usize) {
    let (grants, longest) = shares(instances, callers).await;
    assert!(grants[0] <= 2 * grants[instances - 1], "{grants:?}");
    assert!(longest < TIME, "{longest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_get_equal_shares() {
    shares_are_equal(2, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_instances_get_equal_shares() {
    shares_are_equal(4, 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_with_many_callers_get_equal_shares() {
    shares_are_equal(3, 8).await;
}

/// Two lone callers: who has just released is not in the line until the server has heard of it, and a machine that lets
/// one of them wait for a processor gives the other more. What holds is that neither starves, and the next promise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_lone_callers_neither_starves() {
    let (grants, longest) = shares(2, 1).await;
    assert!(grants[1] > 0 && longest < TIME, "{grants:?} {longest:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stands_in_the_line_is_overtaken_by_nobody() {
    let (deployment, scope) = (Deployment::new(), scope("subject"));
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    let (watch, grants) = (deployment.connect("watch").await, Arc::new(AtomicUsize::new(0)));
    let hot = {
        let (one, grants) = (Arc::clone(&one), Arc::clone(&grants));
        tokio::spawn(async move {
            loop {
                let lease = soon(&one, &scope, Mode::Exclusive).await;
                grants.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(5)).await;
                drop(lease);
            }
        })
    };
    until!("the scope is in use", grants.load(Ordering::SeqCst) > 3);
    let (mut most, mut seen, begin) = (0, 0, Instant::now());
    while seen < 30 {
        patient(begin, &"thirty waits are seen");
        let waiter = {
            let (two, grants) = (Arc::clone(&two), Arc::clone(&grants));
            tokio::spawn(async move {
                let lease = soon(&two, &scope, Mode::Exclusive).await;
                (grants.load(Ordering::SeqCst), lease.release().await)
            })
        };
        let mut before = None;
        while before.is_none() && !waiter.is_finished() {
            let found = watch.inspect(&scope).await.expect("an answer");
            if found.waiters.iter().any(|waiter| waiter.instance == two.instance()) {
                before = Some(grants.load(Ordering::SeqCst));
            }
        }
        let (after, released) = waiter.await.expect("served");
        released.expect("held to the end");
        if let Some(before) = before {
            seen += 1;
            most = most.max(after.saturating_sub(before));
        }
    }
    hot.abort();
    println!("{seen} waits, overtaken by {most} at most");
    // One that had the scope, or its turn, already, and one that stood before it in the line.
    assert!(most <= 2, "{most}");
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
