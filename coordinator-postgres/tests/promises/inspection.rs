//! Looking takes nothing and shows who holds and who waits.

use crate::support::{Deployment, Server, client, scope, soon, until, url, waiters};
use coordinator_postgres::{ErasureCoordinator, Mode, Party, PostgresCoordinator, Scope};
use std::sync::Arc;
use std::time::SystemTime;
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_probers_of_a_free_scope_all_say_free() {
    let (deployment, server, scope) = (Deployment::new(), Server::connect().await, scope("subject"));
    let instances =
        [deployment.connect("one").await, deployment.connect("two").await, deployment.connect("three").await];
    let mut probers = JoinSet::new();
    for prober in 0..20 {
        let instance = Arc::clone(&instances[prober % 3]);
        probers.spawn(async move {
            for _ in 0..100 {
                let found = instance.inspect(&scope).await.expect("an answer");
                assert!(found.is_free(), "{found:?}");
            }
        });
    }
    while !probers.is_empty() {
        // A probe by try-lock would show here, or make another prober see "held".
        assert_eq!(server.locks(&deployment.namespace, 3).await, 0);
        probers.join_next().await.expect("some").expect("no panic");
    }
}

fn seen(parties: &[Party]) -> Vec<(&str, Option<Mode>)> {
    let mut all: Vec<_> = parties.iter().map(|party| (party.instance.as_str(), party.mode)).collect();
    all.sort_by_key(|(name, _)| name.to_owned());
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_and_waiters_are_shown_by_name_and_mode() {
    let (deployment, scope) = (Deployment::new(), scope("subject"));
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    let three = deployment.connect("three").await;
    let [first, second, third] = ["one", "two", "three"].map(|name| deployment.instance(name));
    let (exclusive, shared) = (Some(Mode::Exclusive), Some(Mode::Shared));
    // Several local leases are one holder.
    let held = [soon(&one, &scope, Mode::Shared).await, soon(&one, &scope, Mode::Shared).await];
    let also = soon(&two, &scope, Mode::Shared).await;
    for instance in [&one, &two, &three] {
        let found = instance.inspect(&scope).await.expect("an answer");
        assert_eq!(seen(&found.holders), [(first.as_str(), shared), (second.as_str(), shared)]);
        assert!(found.waiters.is_empty(), "{found:?}");
    }
    // Several local callers are one waiter.
    let waiting: Vec<_> = (0..5).map(|_| checked(&three, &two, scope)).collect();
    waiters(&one, &scope, 1).await;
    until!("how it wants the scope is known", {
        let found = one.inspect(&scope).await.expect("an answer");
        seen(&found.waiters) == [(third.as_str(), exclusive)]
    });
    for instance in [&one, &two, &three] {
        let found = instance.inspect(&scope).await.expect("an answer");
        assert_eq!(seen(&found.waiters), [(third.as_str(), exclusive)]);
        let since = found.waiters[0].since.expect("the server knows");
        assert!(since <= SystemTime::now() && since.elapsed().expect("past").as_secs() < 60, "{since:?}");
    }
    drop(held);
    drop(also);
    for waiter in waiting {
        waiter.await.expect("served");
    }
    until!("free", two.inspect(&scope).await.expect("an answer").is_free());
}

/// Takes the scope on a task of its own; while it is held, `watch` sees whose it is.
fn checked(
    coordinator: &Arc<PostgresCoordinator>,
    watch: &Arc<PostgresCoordinator>,
    scope: Scope,
) -> tokio::task::JoinHandle<()> {
    let (coordinator, watch) = (Arc::clone(coordinator), Arc::clone(watch));
    tokio::spawn(async move {
        let lease = soon(&coordinator, &scope, Mode::Exclusive).await;
        let found = watch.inspect(&scope).await.expect("an answer");
        assert_eq!(seen(&found.holders), [(coordinator.instance(), Some(Mode::Exclusive))]);
        lease.release().await.expect("held to the end");
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plain_session_on_the_key_is_shown_too() {
    let (deployment, scope) = (Deployment::new(), scope("subject"));
    let (one, plain) = (deployment.connect("one").await, client(&url()).await);
    plain.execute("SELECT pg_advisory_lock($1)", &[&deployment.key(&scope)]).await.expect("locked");
    let found = one.inspect(&scope).await.expect("an answer");
    assert_eq!(found.holders.len(), 1);
    assert!(found.holders[0].instance.starts_with("process "), "{found:?}");
    plain.batch_execute("SET application_name = 'backup tool'").await.expect("set");
    let found = one.inspect(&scope).await.expect("an answer");
    assert_eq!(seen(&found.holders), [("backup tool", Some(Mode::Exclusive))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_scopes_are_not_shown() {
    let deployment = Deployment::new();
    let one = deployment.connect("one").await;
    let _held = soon(&one, &scope("subject"), Mode::Exclusive).await;
    assert!(one.inspect(&scope("other")).await.expect("an answer").is_free());
}
