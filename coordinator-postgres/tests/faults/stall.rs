//! A server that stands still in part: a query that waits, a process of it that is frozen.

use crate::kit::belief;
use crate::kit::environment::{builder, primary, scope, unique};
use crate::kit::server::Server;
use coordinator_postgres::{ErasureCoordinator, ErrorKind, LossReason, Mode, PostgresCoordinator};
use coordinator_testkit::{Moment, measured, until, within};
use rustix::process::{Pid, Signal, kill_process};
use std::sync::Arc;
use std::time::Duration;

crate::trials![
    a_look_that_waits_at_the_server_costs_no_lease,
    a_frozen_session_is_told_at_the_deadline_and_excludes_until_it_ends,
    a_server_that_opens_no_sessions_costs_no_lease,
];

const SOON: Duration = Duration::from_secs(5);

async fn instance(server: &Server, namespace: &str) -> Arc<PostgresCoordinator> {
    let building = builder(&server.url(), namespace).instance(unique("stall"));
    let building = building.dead_peer_timeout(Duration::from_secs(4)).connect_timeout(Duration::from_secs(1));
    Arc::new(building.connect().await.expect("the server is there"))
}

async fn a_look_that_waits_at_the_server_costs_no_lease() {
    let server = Server::start().await;
    let admin = server.client().await;
    let holder = instance(&server, &unique("stall")).await;
    let lease = holder.acquire(&scope("s"), Mode::Exclusive).await.expect("granted");
    // As a rewrite of a catalogue does: who reads it waits. The last is read by every look and every proof.
    for catalogue in ["pg_database", "pg_authid", "pg_locks"] {
        let lock = format!("BEGIN; LOCK TABLE pg_catalog.{catalogue} IN ACCESS EXCLUSIVE MODE");
        admin.batch_execute(&lock).await.expect("locked");
        let looking = Arc::clone(&holder);
        let looking = tokio::spawn(async move { looking.inspect(&scope("s")).await });
        let lost = tokio::time::timeout(Duration::from_millis(2_500), lease.lost()).await;
        assert!(lost.is_err(), "a look that waits for {catalogue} took the lease with it: {lost:?}");
        match within(SOON, "an answer", looking).await.expect("no panic") {
            Ok(seen) => assert_eq!(seen.holders.len(), 1),
            Err(error) => assert!(error.is_retryable() && catalogue == "pg_locks", "{catalogue}: {error:?}"),
        }
        let other = holder.acquire(&scope("other"), Mode::Exclusive).await.expect("the lock itself needs no catalogue");
        other.release().await.expect("held to the end");
        admin.batch_execute("ROLLBACK").await.expect("unlocked");
    }
    lease.verify(Duration::from_millis(500)).await.expect("held");
    lease.release().await.expect("held to the end");
}

async fn a_frozen_session_is_told_at_the_deadline_and_excludes_until_it_ends() {
    let server = Server::start().await;
    let namespace = unique("stall");
    let (holder, next) = (instance(&server, &namespace).await, instance(&server, &namespace).await);
    let lease = Arc::new(holder.acquire(&scope("s"), Mode::Exclusive).await.expect("granted"));
    let waiting = crate::crash::in_line(&next, "s").await;
    let session = primary(&server.client().await, holder.instance()).await;
    let session = Pid::from_raw(session).expect("a process");
    let (believed, lost, deadline) = (belief::watch(&lease), lease.lost(), lease.remaining());
    kill_process(session, Signal::STOP).expect("it runs");
    let frozen = Moment::now();
    let reason = within(SOON, "the loss is told", lost).await;
    assert_eq!(reason, LossReason::DeadlinePassed);
    measured(&format!("a frozen session, deadline {deadline:.1?}: until the loss was told"), &mut [frozen.elapsed()]);
    let excluded = until(SOON, "a while", async || frozen.elapsed() > Duration::from_secs(3)).await;
    assert!(!waiting.is_finished(), "{excluded:?}");
    kill_process(session, Signal::CONT).expect("it is there");
    let (other, granted) = crate::crash::granted(waiting, SOON).await;
    let believed = believed.join().expect("no panic");
    assert!(believed < granted);
    other.release().await.expect("held to the end");
}

async fn a_server_that_opens_no_sessions_costs_no_lease() {
    let server = Server::start().await;
    let namespace = unique("stall");
    let (holder, other) = (instance(&server, &namespace).await, instance(&server, &namespace).await);
    let lease = holder.acquire(&scope("s"), Mode::Exclusive).await.expect("granted");
    // Its resting session is ended, so that it needs another; the primary is the one that holds a lock.
    let settled = server.client().await;
    let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity a WHERE application_name LIKE '% ' || $1
        AND NOT EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND locktype = 'advisory')";
    let ended = settled.query(end, &[&other.instance()]).await.expect("ended");
    assert_eq!(ended.iter().filter(|row| row.get(0)).count(), 1);
    server.freeze();
    let begin = Moment::now();
    let error =
        within(2 * SOON, "an answer", other.acquire(&scope("s"), Mode::Exclusive)).await.expect_err("no session");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    measured("an acquire that gets no session, with 1 s of connect time-out", &mut [begin.elapsed()]);
    assert!(begin.elapsed() < Duration::from_millis(1_500), "{:?}", begin.elapsed());
    lease.verify(Duration::from_secs(1)).await.expect("held");
    let free = other.acquire(&scope("t"), Mode::Exclusive).await.expect("what is free needs no other session");
    free.release().await.expect("held to the end");
    server.thaw();
    let waiting = crate::crash::in_line(&other, "s").await;
    lease.release().await.expect("held to the end");
    crate::crash::granted(waiting, SOON).await.0.release().await.expect("held to the end");
}
