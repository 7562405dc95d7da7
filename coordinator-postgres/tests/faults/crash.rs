//! Processes and sessions that die.

use crate::kit::environment::{admin_url, builder, client, coordinator, primary, scope, unique, url};
use crate::kit::instance::Instance;
use crate::kit::server::Server;
use coordinator_postgres::tokio_postgres::Client;
use coordinator_postgres::{ErasureCoordinator, Lease, Mode, PostgresCoordinator};
use coordinator_testkit::{Moment, measured, until, within};
use rustix::process::{Pid, Signal, kill_process};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

crate::trials![
    a_killed_holder_is_followed_at_once,
    a_holder_killed_while_a_query_runs_on_its_session_is_followed_soon,
    a_killed_waiter_leaves_the_queue,
    a_terminated_session_is_told_and_followed,
    a_killed_backend_of_somebody_else_is_told_to_every_holder,
];

const SOON: Duration = Duration::from_secs(5);
/// How long the next holder may take, and the median; tests without optimisation on a busy machine take longer.
const AT_MOST: Duration = if cfg!(debug_assertions) { Duration::from_millis(500) } else { Duration::from_millis(100) };
const MEDIAN: Duration = if cfg!(debug_assertions) { AT_MOST } else { Duration::from_millis(15) };

/// Another instance's acquire, in line when this returns; it gives the lease and when it was granted.
pub(crate) async fn in_line(coordinator: &Arc<PostgresCoordinator>, name: &str) -> JoinHandle<(Lease, Moment)> {
    let (waiter, wanted) = (Arc::clone(coordinator), scope(name));
    let waiting = tokio::spawn(async move {
        let lease = waiter.acquire(&wanted, Mode::Exclusive).await.expect("granted");
        (lease, Moment::now())
    });
    let own = coordinator.instance();
    until(SOON, "it stands in line", async || {
        let seen = coordinator.inspect(&scope(name)).await.expect("the server is there");
        seen.waiters.iter().any(|waiter| waiter.instance == own && waiter.since.is_some())
    })
    .await;
    waiting
}

pub(crate) async fn granted(waiting: JoinHandle<(Lease, Moment)>, limit: Duration) -> (Lease, Moment) {
    within(limit, "the next holder", waiting).await.expect("no panic")
}

async fn a_killed_holder_is_followed_at_once() {
    let namespace = unique("killed");
    let next = Arc::new(coordinator(&url(), &namespace).await);
    let mut took = Vec::new();
    for _ in 0..20 {
        let mut holder = Instance::start(&url(), &namespace, &[]).await;
        holder.acquire("s", "exclusive").await;
        let waiting = in_line(&next, "s").await;
        let killed = Moment::now();
        holder.kill();
        let (lease, at) = granted(waiting, SOON).await;
        took.push(at.since(killed));
        lease.release().await.expect("held to the end");
    }
    let (median, most) = measured("SIGKILL of a holder to the next grant", &mut took);
    assert!(median <= MEDIAN && most <= AT_MOST, "{took:?}");
}

async fn a_holder_killed_while_a_query_runs_on_its_session_is_followed_soon() {
    let server = Server::start().await;
    let namespace = unique("killed");
    let next = Arc::new(coordinator(&server.url(), &namespace).await);
    let mut holder = Instance::start(&server.url(), &namespace, &[]).await;
    holder.acquire("s", "exclusive").await;
    let waiting = in_line(&next, "s").await;

    // A look at who holds reads this view: so it waits until the lock of it ends.
    let (admin, observer) = (server.client().await, server.client().await);
    let held_up = primary(&observer, &holder.name).await;
    let blocked = "SELECT EXISTS (SELECT FROM pg_lock_status() WHERE pid = $1 AND NOT granted)";
    let blocked = observer.prepare(blocked).await.expect("prepared");
    admin.batch_execute("BEGIN; LOCK TABLE pg_catalog.pg_locks IN ACCESS EXCLUSIVE MODE").await.expect("locked");
    holder.tell("inspect s").await;
    until(SOON, "the query runs", async || observer.query_one(&blocked, &[&held_up]).await.expect("readable").get(0))
        .await;
    let killed = Moment::now();
    holder.kill();
    let (lease, at) = granted(waiting, SOON).await;
    measured("SIGKILL with a query on the session to the next grant", &mut [at.since(killed)]);
    assert!(at.since(killed) <= Duration::from_millis(1_500), "{:?}", at.since(killed));
    admin.batch_execute("ROLLBACK").await.expect("unlocked");
    lease.release().await.expect("held to the end");
}

async fn a_killed_waiter_leaves_the_queue() {
    let namespace = unique("killed");
    let holder = coordinator(&url(), &namespace).await;
    let lease = holder.acquire(&scope("s"), Mode::Exclusive).await.expect("granted");
    let mut took = Vec::new();
    for _ in 0..5 {
        let mut waiter = Instance::start(&url(), &namespace, &[]).await;
        waiter.tell("queue s exclusive").await;
        let waiters = async || holder.inspect(&scope("s")).await.expect("the server is there").waiters.len();
        until(SOON, "it stands in line", async || waiters().await == 1).await;
        waiter.kill();
        took.push(until(SOON, "it left the queue", async || waiters().await == 0).await);
    }
    let (_, most) = measured("SIGKILL of a waiter until it left the queue", &mut took);
    assert!(most <= Duration::from_millis(1_500), "{took:?}");
    lease.release().await.expect("held to the end");
}

/// Ends the holder's session in some way while another instance waits, and measures who believed what.
async fn is_told_and_followed(what: &str, url: &str, observer: &Client, end: impl AsyncFn(&Client, i32)) {
    let namespace = unique("ended");
    let (mut notice, mut overlap) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        let next = builder(url, &namespace).instance(unique("next")).connect().await.expect("the server is there");
        let next = Arc::new(next);
        let mut holder = Instance::start(url, &namespace, &[]).await;
        holder.acquire("s", "exclusive").await;
        let waiting = in_line(&next, "s").await;
        let session = primary(observer, &holder.name).await;
        let ended = Moment::now();
        end(observer, session).await;
        let told = holder.answer("lost").await;
        let (at, reason) = told.split_once(' ').expect("when and why");
        assert_eq!(reason, "Disconnected");
        let believed = holder.moment("believed").await;
        let (lease, granted) = granted(waiting, SOON).await;
        notice.push(at.parse::<Moment>().expect("a moment").since(ended));
        overlap.push(believed.since(granted));
        holder.tell("live s").await;
        assert_eq!(holder.answer("live").await, "false");
        holder.tell("release s").await;
        assert!(holder.answer("released").await.contains("Lost"));
        // And it goes on with a new session.
        lease.release().await.expect("held to the end");
        holder.acquire("s", "exclusive").await;
    }
    let (_, latest) = measured(&format!("{what} until the loss was told"), &mut notice);
    let (_, longest) = measured(&format!("{what}: overlap of belief"), &mut overlap);
    assert!(latest <= AT_MOST && longest <= AT_MOST, "{notice:?} {overlap:?}");
}

async fn a_terminated_session_is_told_and_followed() {
    let observer = client(&admin_url()).await;
    is_told_and_followed("terminate", &url(), &observer, async |observer, session| {
        let ended = observer.query_one("SELECT pg_terminate_backend($1)", &[&session]).await.expect("allowed");
        assert!(ended.get::<_, bool>(0));
    })
    .await;
}

async fn a_killed_backend_of_somebody_else_is_told_to_every_holder() {
    let server = Server::start().await;
    let namespace = unique("ended");
    let (mut notice, mut overlap) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        let next = Arc::new(coordinator(&server.url(), &namespace).await);
        let mut holder = Instance::start(&server.url(), &namespace, &[]).await;
        holder.acquire("s", "exclusive").await;
        let bystander = server.client().await;
        let pid: i32 = bystander.query_one("SELECT pg_backend_pid()", &[]).await.expect("alive").get(0);
        let killed = Moment::now();
        kill_process(Pid::from_raw(pid).expect("a process"), Signal::KILL).expect("it runs");
        let told = holder.moment("lost").await;
        let believed = holder.moment("believed").await;
        let (lease, granted) = follows(&next).await;
        notice.push(told.since(killed));
        overlap.push(believed.since(granted));
        lease.release().await.expect("held to the end");
    }
    measured("SIGKILL of another backend until the loss was told", &mut notice);
    let (_, longest) = measured("SIGKILL of another backend: overlap of belief", &mut overlap);
    assert!(longest <= AT_MOST, "{overlap:?}");
}

/// Asks until the server has recovered.
async fn follows(next: &PostgresCoordinator) -> (Lease, Moment) {
    within(2 * SOON, "the next holder", async {
        loop {
            match next.acquire(&scope("s"), Mode::Exclusive).await {
                Ok(lease) => return (lease, Moment::now()),
                Err(error) => assert!(error.is_retryable(), "{error:?}"),
            }
        }
    })
    .await
}
