//! Deployed instances that lock `SHA-256(name)` on a plain session: excluded both ways, and neither starves.

use crate::support::{PATIENCE, Server, client, random, scope, soon, until, url, waits};
use coordinator_postgres::tokio_postgres::Client;
use coordinator_postgres::{ErasureCoordinator, ErasureCoordinatorExt, LossReason, Mode, PostgresCoordinator, Scope};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// An instance without a namespace, as next to such peers; the scope's name is random instead.
async fn ours(tag: &str) -> Arc<PostgresCoordinator> {
    let builder = PostgresCoordinator::builder(&url()).expect("a URL").instance(format!("ours-{tag}"));
    Arc::new(builder.connect().await.expect("connected"))
}

fn scope_and_key() -> (Scope, i64) {
    let name = random();
    let key = i64::from_be_bytes(*Sha256::digest(&name).first_chunk().expect("32 bytes"));
    (scope(&name), key)
}

async fn says(peer: &Client, function: &str, key: i64) -> bool {
    peer.query_one(&format!("SELECT {function}($1)"), &[&key]).await.expect("an answer").get(0)
}

async fn locks(peer: &Client, key: i64) {
    peer.execute("SELECT pg_advisory_lock($1)", &[&key]).await.expect("locked");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_two_exclude_each_other() {
    let ((scope, key), tag) = (scope_and_key(), random());
    let (ours, peer) = (ours(&tag).await, client(&url()).await);
    // The peer holds.
    locks(&peer, key).await;
    assert!(ours.try_acquire(&scope, Mode::Shared).await.expect("an answer").is_none());
    let limit = Duration::from_millis(100);
    assert!(ours.acquire_within(&scope, Mode::Exclusive, limit).await.expect("an answer").is_none());
    let waiter = waits(&ours, scope, Mode::Exclusive);
    until!("it waits", ours.inspect(&scope).await.expect("an answer").waiters.len() == 1);
    assert!(says(&peer, "pg_advisory_unlock", key).await);
    let (lease, _) = waiter.await.expect("served");
    // We hold.
    assert!(!says(&peer, "pg_try_advisory_lock", key).await);
    assert!(!says(&peer, "pg_try_advisory_lock_shared", key).await);
    let peer = tokio::spawn(async move {
        locks(&peer, key).await;
        peer
    });
    let server = Server::connect().await;
    until!("the peer waits", server.pids(key, false).await.len() == 1);
    assert!(!peer.is_finished());
    lease.release().await.expect("held to the end");
    let peer = tokio::time::timeout(PATIENCE, peer).await.expect("let in").expect("no panic");
    assert!(says(&peer, "pg_advisory_unlock", key).await);
    // Shared: with peers that share.
    assert!(says(&peer, "pg_try_advisory_lock_shared", key).await);
    let lease = soon(&ours, &scope, Mode::Shared).await;
    assert!(!says(&peer, "pg_try_advisory_lock", key).await);
    lease.release().await.expect("held to the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_flow_of_ours_lets_a_peer_in() {
    let ((scope, key), tag) = (scope_and_key(), random());
    let (ours, peer, stop) = (ours(&tag).await, client(&url()).await, Arc::new(AtomicBool::new(false)));
    for mode in [Mode::Exclusive, Mode::Shared] {
        stop.store(false, Ordering::Relaxed);
        let (mut flows, passed) = (Vec::new(), Arc::new(AtomicUsize::new(0)));
        for _ in 0..4 {
            let (ours, stop, passed) = (Arc::clone(&ours), Arc::clone(&stop), Arc::clone(&passed));
            flows.push(tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let lease = soon(&ours, &scope, mode).await;
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    passed.fetch_add(1, Ordering::Relaxed);
                    drop(lease);
                }
            }));
        }
        until!("the flow flows", passed.load(Ordering::Relaxed) > 50);
        for _ in 0..3 {
            let begin = Instant::now();
            tokio::time::timeout(PATIENCE, locks(&peer, key)).await.expect("let in");
            let waited = begin.elapsed();
            println!("a {mode} flow let a peer in after {waited:?}");
            assert!(waited < Duration::from_secs(2), "{waited:?}");
            assert!(says(&peer, "pg_advisory_unlock", key).await);
        }
        stop.store(true, Ordering::Relaxed);
        for flow in flows {
            flow.await.expect("no panic");
        }
    }
}

/// The session of ours that holds two keys, its own and a lease's.
async fn primary(server: &Server, tag: &str) -> i32 {
    let sql = "SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE locktype = 'advisory' AND application_name LIKE '%ours-' || $1 GROUP BY pid HAVING count(*) = 2";
    server.0.query_one(sql, &[&tag]).await.expect("one").get(0)
}

/// Peers that queue for the key again and again, so that one always waits when another leaves.
async fn flow_of_peers(key: i64, stop: &Arc<AtomicBool>) -> Vec<JoinHandle<usize>> {
    let mut flows = Vec::new();
    for _ in 0..4 {
        let (peer, stop) = (client(&url()).await, Arc::clone(stop));
        flows.push(tokio::spawn(async move {
            let mut holds = 0;
            while !stop.load(Ordering::Relaxed) {
                locks(&peer, key).await;
                tokio::time::sleep(Duration::from_millis(20)).await;
                assert!(says(&peer, "pg_advisory_unlock", key).await);
                holds += 1;
            }
            holds
        }));
    }
    flows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flow_of_peers_does_not_starve_ours() {
    let ((scope, key), tag, server) = (scope_and_key(), random(), Server::connect().await);
    let (ours, stop) = (ours(&tag).await, Arc::new(AtomicBool::new(false)));
    let elsewhere = soon(&ours, &crate::support::scope(&random()), Mode::Exclusive).await;
    let peers = flow_of_peers(key, &stop).await;
    until!("the peers queue", server.pids(key, false).await.len() == 3);
    let (primary, mut kept) = (primary(&server, &tag).await, 0);
    for round in 0..8 {
        let mode = if round % 2 == 0 { Mode::Exclusive } else { Mode::Shared };
        let begin = Instant::now();
        let lease = soon(&ours, &scope, mode).await;
        println!("{mode} after {:?}", begin.elapsed());
        assert!(begin.elapsed() < Duration::from_secs(5), "{:?}", begin.elapsed());
        // On whichever session it lives, it is a lease like any other.
        lease.verify(Duration::from_secs(1)).await.expect("held");
        let token = lease.fence().await.expect("a token");
        assert!(lease.fence().await.expect("a token") > token);
        assert_eq!(lease.irreversible(Duration::from_secs(1), async { 7 }).await.expect("held"), 7);
        let holders = server.pids(key, true).await;
        assert_eq!(holders.len(), 1, "{holders:?}");
        kept += usize::from(holders[0] != primary);
        // Longer than a waiting session may be idle: it must have got a holder's settings.
        tokio::time::sleep(if round == 0 { Duration::from_secs(7) } else { Duration::from_millis(20) }).await;
        lease.verify(Duration::from_secs(1)).await.expect("still held");
        assert_eq!(server.pids(key, true).await, holders);
        if round % 3 == 2 { drop(lease) } else { lease.release().await.expect("held to the end") }
    }
    println!("{kept} of 8 lived on a session of their own");
    assert!(kept > 0, "the peers left gaps in which the primary got all");
    stop.store(true, Ordering::Relaxed);
    for peer in peers {
        assert!(peer.await.expect("no panic") > 10, "nor are the peers starved");
    }
    until!("its keys are freed", server.locks(&tag, 1).await == 1);
    drop(elsewhere);
    until!("its keys are freed", server.locks(&tag, 1).await == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_on_a_session_of_its_own_is_lost_alone() {
    let ((scope, key), tag, server) = (scope_and_key(), random(), Server::connect().await);
    let (ours, stop) = (ours(&tag).await, Arc::new(AtomicBool::new(false)));
    let elsewhere = soon(&ours, &crate::support::scope(&random()), Mode::Exclusive).await;
    let primary = primary(&server, &tag).await;
    let peers = flow_of_peers(key, &stop).await;
    until!("the peers queue", server.pids(key, false).await.len() == 3);
    let mut lease = soon(&ours, &scope, Mode::Exclusive).await;
    let mut holder = server.pids(key, true).await[0];
    until!("a lease lives on a waiting session", {
        if holder == primary {
            drop(lease);
            lease = soon(&ours, &scope, Mode::Exclusive).await;
            holder = server.pids(key, true).await[0];
        }
        holder != primary
    });
    server.terminate(holder).await;
    assert_eq!(tokio::time::timeout(PATIENCE, lease.lost()).await.expect("told"), LossReason::Disconnected);
    elsewhere.verify(Duration::from_secs(1)).await.expect("the primary lives on");
    assert!(lease.release().await.expect_err("lost").is_lost());
    drop(soon(&ours, &scope, Mode::Exclusive).await);
    stop.store(true, Ordering::Relaxed);
    for peer in peers {
        peer.await.expect("no panic");
    }
}
