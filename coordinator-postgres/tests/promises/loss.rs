//! When the server ends the holder's session, the holder is told, its work stops, and others go on.

use crate::support::{Deployment, PATIENCE, Server, passes, scope, soon, until, waiters, waits};
use coordinator_postgres::{Error, ErrorKind, LossReason, Mode, under_lock};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LOST: ErrorKind = ErrorKind::Lost(LossReason::Disconnected);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_session_is_terminated_stops_and_the_next_one_follows() {
    let (deployment, server, scope) = (Deployment::new(), Server::connect().await, scope("subject"));
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    let key = deployment.key(&scope);
    let (mut notices, mut overlaps) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        let (working, works) = tokio::sync::oneshot::channel();
        let holder = {
            let one = Arc::clone(&one);
            tokio::spawn(async move {
                let (tell, told) = tokio::sync::oneshot::channel();
                let outcome = under_lock(&one, &scope, Mode::Exclusive, async move |lease| {
                    let mut belief = Belief { last: Instant::now(), tell: Some(tell) };
                    let _ = working.send(lease.lost());
                    while lease.ensure_live().is_ok() {
                        belief.last = Instant::now();
                        tokio::time::sleep(Duration::from_micros(100)).await;
                    }
                    std::future::pending::<Result<(), Error>>().await
                })
                .await;
                (outcome, told.await.expect("the work's future was dropped"))
            })
        };
        let lost = works.await.expect("the work begins");
        let next = waits(&two, scope, Mode::Exclusive);
        waiters(&two, &scope, 1).await;
        let holds = server.pids(key, true).await;
        assert_eq!(holds.len(), 1);
        let begin = Instant::now();
        server.terminate(holds[0]).await;
        assert_eq!(tokio::time::timeout(PATIENCE, lost).await.expect("told"), LossReason::Disconnected);
        notices.push(begin.elapsed());
        let (outcome, believed) = holder.await.expect("no panic");
        assert_eq!(outcome.expect_err("lost").kind(), LOST);
        let (lease, granted) = next.await.expect("served");
        assert!(granted > begin, "a second holder before the first one's end");
        overlaps.push(believed.saturating_duration_since(granted));
        lease.verify(Duration::from_secs(1)).await.expect("it is the holder now");
        lease.release().await.expect("held to the end");
    }
    notices.sort();
    overlaps.sort();
    println!("notice: median {:?}, longest {:?}; overlap of belief: {:?}", notices[10], notices[19], overlaps[19]);
    assert!(notices[10] < Duration::from_millis(250) && notices[19] < Duration::from_secs(10), "{notices:?}");
    assert!(overlaps[19] <= notices[19], "{overlaps:?} {notices:?}");
}

/// When the work last believed that it holds the scope; told when the work's future is dropped.
struct Belief {
    last: Instant,
    tell: Option<tokio::sync::oneshot::Sender<Instant>>,
}

impl Drop for Belief {
    fn drop(&mut self) {
        let _ = self.tell.take().map(|tell| tell.send(self.last));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lease_of_a_terminated_session_is_lost_for_good() {
    let (deployment, server) = (Deployment::new(), Server::connect().await);
    let one = deployment.connect("one").await;
    let mut leases = Vec::new();
    for n in 0..6 {
        leases.push(soon(&one, &scope(&format!("subject {n}")), Mode::Shared).await);
    }
    server.terminate(server.pids(deployment.key(leases[0].scope()), true).await[0]).await;
    for lease in &leases {
        assert_eq!(tokio::time::timeout(PATIENCE, lease.lost()).await.expect("told"), LossReason::Disconnected);
        assert_eq!(lease.remaining(), Duration::ZERO);
    }
    // The coordinator goes on, on a new session; the leases of the old one don't come back.
    let again = soon(&one, leases[0].scope(), Mode::Exclusive).await;
    again.verify(Duration::from_secs(1)).await.expect("held");
    let mut kinds = Vec::new();
    for lease in leases {
        kinds.push(lease.ensure_live().expect_err("lost").kind());
        kinds.push(lease.verify(Duration::ZERO).await.expect_err("lost").kind());
        kinds.push(lease.fence().await.expect_err("lost").kind());
        kinds.push(lease.irreversible(Duration::ZERO, async {}).await.expect_err("lost").kind());
        kinds.push(lease.release().await.expect_err("lost").kind());
    }
    assert!(kinds.iter().all(|kind| *kind == LOST), "{kinds:?}");
    again.release().await.expect("untouched by the old ones' releases");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_callers_behind_a_lost_lease_ask_anew_at_once() {
    let (deployment, server, scope) = (Deployment::new(), Server::connect().await, scope("subject"));
    let one = deployment.connect("one").await;
    let held = soon(&one, &scope, Mode::Exclusive).await;
    let behind = waits(&one, scope, Mode::Exclusive);
    waiters(&one, &scope, 1).await;
    let begin = Instant::now();
    server.terminate(server.pids(deployment.key(&scope), true).await[0]).await;
    let (lease, granted) = behind.await.expect("served, although the loser is still there");
    assert!(granted - begin < Duration::from_secs(2), "{:?}", granted - begin);
    assert!(held.ensure_live().is_err());
    drop(held);
    lease.verify(Duration::ZERO).await.expect("the loser's drop frees nothing");
    lease.release().await.expect("held to the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_waits_on_however_often_its_session_is_terminated() {
    let (deployment, server, scope) = (Deployment::new(), Server::connect().await, scope("subject"));
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    let held = soon(&one, &scope, Mode::Exclusive).await;
    let waiter = passes(&two, scope, Mode::Exclusive);
    let key = deployment.key(&scope);
    let sql = "SELECT pid, waitstart::text FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND NOT granted
        AND (classid::bigint << 32) | objid::bigint = $1";
    let mut ended = Vec::new();
    for _ in 0..3 {
        // It waits, on a session that has not been ended, and not for the first slice there.
        let mut slices = HashMap::<i32, HashSet<String>>::new();
        until!("it waits", {
            for row in server.0.query(sql, &[&key]).await.expect("an answer") {
                slices.entry(row.get(0)).or_default().extend(row.get::<_, Option<String>>(1));
            }
            slices.iter().any(|(pid, starts)| !ended.contains(pid) && starts.len() > 1)
        });
        ended.push(server.pids(key, false).await[0]);
        server.terminate(*ended.last().expect("just pushed")).await;
    }
    until!("it waits again", server.pids(key, false).await.iter().any(|pid| !ended.contains(pid)));
    held.release().await.expect("held to the end");
    waiter.await.expect("served");
    until!("nothing is left", server.locks(&deployment.namespace, 2).await == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_of_an_instance_whose_primary_is_terminated_is_served() {
    let (deployment, server, scope) = (Deployment::new(), Server::connect().await, scope("subject"));
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    let held = soon(&one, &scope, Mode::Exclusive).await;
    let other = soon(&two, &crate::support::scope("other"), Mode::Exclusive).await;
    let waiter = waits(&two, scope, Mode::Shared);
    waiters(&one, &scope, 1).await;
    server.terminate(server.pids(deployment.key(other.scope()), true).await[0]).await;
    assert_eq!(other.lost().await, LossReason::Disconnected);
    held.release().await.expect("held to the end");
    let (lease, _) = waiter.await.expect("served");
    lease.verify(Duration::from_secs(1)).await.expect("held on the new primary");
}
