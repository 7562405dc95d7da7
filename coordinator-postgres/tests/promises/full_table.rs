//! A server whose lock table is full.

use crate::support::server::Server;
use crate::support::{Deployment, scope, soon, until};
use coordinator_postgres::tokio_postgres::Client;
use coordinator_postgres::{ErasureCoordinator, Error, ErrorKind, Lease, Mode};
use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

const TINY: &str = "max_locks_per_transaction=10
    max_connections=20
    max_wal_senders=0
    autovacuum=off";

/// How many advisory locks anybody has, beside the one by which a primary is known.
async fn locks(server: &Client) -> usize {
    let sql = "SELECT count(*) - 1 FROM pg_locks WHERE locktype = 'advisory'";
    let count: i64 = server.query_one(sql, &[]).await.expect("an answer").get(0);
    usize::try_from(count).expect("a primary")
}

fn says_so(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("53200") && error.to_string().contains("max_locks_per_transaction"), "{error}");
    assert!(error.source().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_that_meets_a_full_lock_table_keeps_only_what_it_granted() {
    let server = Server::start_with(TINY).await;
    let watch = server.client().await;
    let deployment = Deployment::at(server.url());
    let one = Arc::new(deployment.builder("one").most_scopes(100_000).connect().await.expect("connected"));
    let mut held: Vec<Lease> = Vec::new();
    // Several times, so that a burst is cut at different places, and finds locks of bursts before it.
    for round in 0..6 {
        let mut tasks = JoinSet::new();
        for n in 0..3_000 {
            let one = Arc::clone(&one);
            let mode = if n % 4 == 0 { Mode::Shared } else { Mode::Exclusive };
            tasks.spawn(async move { one.acquire(&scope(&format!("{round} {n}")), mode).await });
        }
        let mut refused = 0;
        while let Some(done) = tasks.join_next().await {
            match done.expect("no panic") {
                Ok(lease) => held.push(lease),
                Err(error) => {
                    says_so(&error);
                    refused += 1;
                }
            }
        }
        println!("round {round}: {} held, {refused} refused", held.len());
        assert!(refused > 0 && !held.is_empty());
        until!("no key is left that is no lease's", locks(&watch).await == held.len());
        for lease in &held {
            lease.ensure_live().expect("kept");
        }
        // With the table full, what is held can be used and given back.
        let any = held.len() / 2;
        held[any].verify(Duration::from_secs(1)).await.expect("held");
        held[any].fence().await.expect("a token");
        match one.inspect(held[any].scope()).await {
            Ok(found) => assert_eq!(found.holders.len(), 1),
            Err(error) => says_so(&error), // to look takes locks of relations for a moment
        }
        let some = held.split_off(held.len() - held.len() / (2 + round));
        for lease in some {
            lease.release().await.expect("held to the end");
        }
        assert_eq!(locks(&watch).await, held.len());
        let again = soon(&one, &scope(&format!("{round} again")), Mode::Exclusive).await;
        again.release().await.expect("held to the end");
    }
    for lease in held {
        lease.release().await.expect("held to the end");
    }
    assert_eq!(locks(&watch).await, 0);
    assert_eq!(one.scopes(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_meets_a_full_lock_table_fails_and_leaves_nothing() {
    let server = Server::start_with(TINY).await;
    let watch = server.client().await;
    let deployment = Deployment::at(server.url());
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    let scope = scope("subject");
    let held = soon(&one, &scope, Mode::Exclusive).await;
    // Somebody else fills the table, all but nothing.
    let filled = watch.execute("SELECT pg_advisory_lock(n) FROM generate_series(1, 100000) n", &[]).await;
    assert!(filled.is_err());
    let waiter = {
        let two = Arc::clone(&two);
        tokio::spawn(async move { two.acquire(&scope, Mode::Exclusive).await })
    };
    let error = waiter.await.expect("no panic").expect_err("no room for the wait");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    held.verify(Duration::from_secs(1)).await.expect("held");
    watch.execute("SELECT pg_advisory_unlock_all()", &[]).await.expect("freed");
    until!("two primaries and one lease", locks(&watch).await == 2);
    held.release().await.expect("held to the end");
    soon(&two, &scope, Mode::Exclusive).await.release().await.expect("held to the end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_server_gives_a_small_cap() {
    let server = Server::start_with(TINY).await;
    let deployment = Deployment::at(server.url());
    let one = deployment.builder("one").wait_for_room(Duration::from_millis(100)).connect().await.expect("connected");
    let mut held = Vec::new();
    // A tenth of 10 × 20.
    for n in 0..20 {
        held.push(one.acquire(&scope(&format!("subject {n}")), Mode::Exclusive).await.expect("room"));
    }
    let error = one.acquire(&scope("one more"), Mode::Exclusive).await.expect_err("no room");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("20"), "{error}");
}
