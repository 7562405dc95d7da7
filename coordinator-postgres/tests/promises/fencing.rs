//! Tokens grow, and the sink refuses the stale ones.

use crate::support::{Deployment, Server, client, random, scope, soon, until, url, waits};
use coordinator_postgres::tokio_postgres::Client;
use coordinator_postgres::{CREATE_FENCE_TABLE, FencingGate, FencingToken, Mode, admit};
use std::sync::Arc;
use tokio::task::JoinSet;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_grow_across_holders_instances_and_modes() {
    let (deployment, scope) = (Deployment::new(), scope("subject"));
    let instances = [deployment.connect("one").await, deployment.connect("two").await];
    let order = Arc::new(tokio::sync::Mutex::new(Vec::new()));
    let mut tasks = JoinSet::new();
    for task in 0..8 {
        let (instance, order) = (Arc::clone(&instances[task % 2]), Arc::clone(&order));
        tasks.spawn(async move {
            for _ in 0..20 {
                let lease = soon(&instance, &scope, Mode::Exclusive).await;
                let token = lease.fence().await.expect("a token");
                order.lock().await.push(token); // while it is held
                lease.release().await.expect("held to the end");
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic");
    }
    let tokens = order.lock().await;
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    // Shared holders get tokens of their own, above all before them.
    let shared = [soon(&instances[0], &scope, Mode::Shared).await, soon(&instances[1], &scope, Mode::Shared).await];
    let mut last = *tokens.last().expect("many");
    for lease in shared.iter().chain(&shared) {
        let token = lease.fence().await.expect("a token");
        assert!(token > last);
        last = token;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_grow_across_a_terminated_session() {
    let (deployment, server, scope) = (Deployment::new(), Server::connect().await, scope("subject"));
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    let lease = soon(&one, &scope, Mode::Exclusive).await;
    let old = lease.fence().await.expect("a token");
    let next = waits(&two, scope, Mode::Exclusive);
    server.terminate(server.pids(deployment.key(&scope), true).await[0]).await;
    let (lease_of_two, _) = next.await.expect("served");
    assert!(lease_of_two.fence().await.expect("a token") > old);
    assert!(lease.fence().await.expect_err("no token for who lost it").is_lost());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_tokens_at_once_are_all_different() {
    let deployment = Deployment::new();
    let one = deployment.connect("one").await;
    let lease = soon(&one, &scope("subject"), Mode::Shared).await;
    let tokens = futures_util::future::try_join_all((0..100).map(|_| lease.fence())).await.expect("tokens");
    let distinct: std::collections::BTreeSet<_> = tokens.iter().collect();
    assert_eq!(distinct.len(), 100);
}

/// A client whose tables are its own; the schema is dropped by [`Schema::end`].
struct Schema(Client, String);

impl Schema {
    async fn new() -> Self {
        let this = Self(client(&url()).await, format!("fence_{}", random()));
        this.0.batch_execute(&format!("CREATE SCHEMA {0}; SET search_path = {0}", this.1)).await.expect("created");
        for _ in 0..2 {
            this.0.batch_execute(CREATE_FENCE_TABLE).await.expect("created, also twice");
        }
        this
    }

    async fn end(self) {
        self.0.batch_execute(&format!("DROP SCHEMA {} CASCADE", self.1)).await.expect("dropped");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_holders_write_is_refused_by_the_sink() {
    let (deployment, server, scope) = (Deployment::new(), Server::connect().await, scope("subject"));
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    let mut schema = Schema::new().await;
    let lease = soon(&one, &scope, Mode::Exclusive).await;
    let stale = lease.fence().await.expect("a token");
    assert!(admit(&schema.0, &scope, Mode::Exclusive, stale).await.expect("an answer"));
    assert!(admit(&schema.0, &scope, Mode::Exclusive, stale).await.expect("an answer"), "its next effect");
    server.terminate(server.pids(deployment.key(&scope), true).await[0]).await;
    let next = soon(&two, &scope, Mode::Exclusive).await;
    let token = next.fence().await.expect("a token");
    // Rolled back: as if it had not been presented.
    let transaction = schema.0.transaction().await.expect("begun");
    assert!(admit(&transaction, &scope, Mode::Exclusive, token).await.expect("an answer"));
    assert!(!admit(&transaction, &scope, Mode::Exclusive, stale).await.expect("an answer"));
    transaction.rollback().await.expect("rolled back");
    assert!(admit(&schema.0, &scope, Mode::Exclusive, stale).await.expect("an answer"));
    // Committed: the stale one is refused for ever, in whatever mode.
    let transaction = schema.0.transaction().await.expect("begun");
    assert!(admit(&transaction, &scope, Mode::Exclusive, token).await.expect("an answer"));
    transaction.commit().await.expect("committed");
    for mode in [Mode::Exclusive, Mode::Shared] {
        assert!(!admit(&schema.0, &scope, mode, stale).await.expect("an answer"));
    }
    schema.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sinks_statement_follows_the_rule() {
    let schema = Schema::new().await;
    let mut state = 1_u64;
    let mut next = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for case in 0..40 {
        let (scope, mut gate, mut told) = (scope(&format!("case {case}")), FencingGate::default(), Vec::new());
        for _ in 0..20 {
            let mode = if next(2) == 0 { Mode::Shared } else { Mode::Exclusive };
            let token = FencingToken::new((1 << 48) + 1 + next(8));
            told.push((mode, token));
            let admitted = admit(&schema.0, &scope, mode, token).await.expect("an answer");
            assert_eq!(admitted, gate.admit(mode, token), "{told:?}");
        }
    }
    schema.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_transactions_at_once_are_admitted_in_order() {
    let (schema, scope) = (Schema::new().await, scope("subject"));
    let mut other = client(&url()).await;
    other.batch_execute(&format!("SET search_path = {}", schema.1)).await.expect("set");
    for (round, seen) in [(1, false), (2, true)] {
        let [older, newer] = [2 * round, 2 * round + 1].map(FencingToken::new);
        let transaction = other.transaction().await.expect("begun");
        assert!(admit(&transaction, &scope, Mode::Exclusive, newer).await.expect("an answer"));
        // The older one waits for the row, and is judged by what becomes of the newer one.
        let (admitted, ()) = tokio::join!(admit(&schema.0, &scope, Mode::Exclusive, older), async {
            let server = Server::connect().await;
            let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%coordinator_fence%'";
            until!("it waits", server.0.query_one(sql, &[]).await.expect("an answer").get::<_, i64>(0) > 0);
            if seen {
                transaction.commit().await.expect("committed");
            } else {
                transaction.rollback().await.expect("rolled back");
            }
        });
        assert_eq!(admitted.expect("an answer"), !seen);
    }
    schema.end().await;
}
