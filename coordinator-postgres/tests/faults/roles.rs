//! Defaults of a role or a database that would end a holder are overridden.

use crate::kit::environment::{admin_url, builder, client, primary, scope, unique, url};
use coordinator_postgres::{ErasureCoordinator, Mode};
use coordinator_testkit::{until, within};
use std::time::Duration;
use tokio::time::Instant;

crate::trials![a_lease_outlives_role_defaults_that_would_end_it, a_waiter_outlives_them_too];

/// A role with defaults that end, refuse or corrupt what a lock does; answers its URL.
async fn hostile_role() -> (String, String) {
    let role = unique("hostile").replace('-', "_");
    let admin = client(&admin_url()).await;
    admin.batch_execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 'p'")).await.expect("made");
    for default in [
        "idle_session_timeout = '1s'",
        "idle_in_transaction_session_timeout = '1s'",
        "statement_timeout = '300ms'",
        "lock_timeout = '100ms'",
        "default_transaction_read_only = on",
        "default_transaction_isolation = 'serializable'",
        "default_transaction_deferrable = on",
        "synchronous_commit = off",
        "search_path = 'nowhere'",
        "client_min_messages = 'debug5'",
        "client_connection_check_interval = 0",
        "tcp_keepalives_idle = 7200",
        "tcp_user_timeout = 0",
        "bytea_output = 'escape'",
        "quote_all_identifiers = on",
        "standard_conforming_strings = off",
        "DateStyle = 'SQL, DMY'",
        "IntervalStyle = 'sql_standard'",
        "extra_float_digits = -15",
        "plan_cache_mode = 'force_generic_plan'",
    ] {
        admin.batch_execute(&format!("ALTER ROLE {role} SET {default}")).await.expect("set");
    }
    let rest = url().split_once('@').expect("role@").1.to_owned();
    (format!("postgres://{role}:p@{rest}"), role)
}

async fn drop_role(role: &str) {
    let admin = client(&admin_url()).await;
    admin.batch_execute(&format!("DROP ROLE {role}")).await.expect("dropped");
}

async fn a_lease_outlives_role_defaults_that_would_end_it() {
    let (hostile, role) = hostile_role().await;
    let name = unique("hostile");
    let coordinator = builder(&hostile, &name).instance(&name).connect().await.expect("the server is there");
    let lease = coordinator.acquire(&scope("s"), Mode::Exclusive).await.expect("granted");
    let begin = Instant::now();
    let observer = client(&admin_url()).await;
    let holder = primary(&observer, &name).await;
    let mut last = lease.fence().await.expect("held");
    until(Duration::from_secs(10), "three and a half seconds of life", async || {
        let lost = tokio::time::timeout(Duration::from_millis(500), lease.lost()).await;
        assert!(lost.is_err(), "{lost:?}");
        let token = lease.fence().await.expect("held");
        assert!(token > std::mem::replace(&mut last, token));
        begin.elapsed() > Duration::from_millis(3_500)
    })
    .await;
    assert_eq!(primary(&observer, &name).await, holder, "the same session all the time");
    lease.verify(Duration::from_secs(5)).await.expect("held");
    lease.release().await.expect("held to the end");
    drop(coordinator);
    drop_role(&role).await;
}

async fn a_waiter_outlives_them_too() {
    let (hostile, role) = hostile_role().await;
    let name = unique("hostile");
    let waiter = builder(&hostile, &name).connect().await.expect("the server is there");
    let holder = builder(&url(), &name).connect().await.expect("the server is there");
    let held = holder.acquire(&scope("s"), Mode::Exclusive).await.expect("granted");
    let waiting = scope("s");
    let waiting = waiter.acquire(&waiting, Mode::Exclusive);
    tokio::pin!(waiting);
    let early = tokio::time::timeout(Duration::from_millis(2_500), &mut waiting).await;
    assert!(early.is_err(), "{early:?}");
    held.release().await.expect("held to the end");
    let lease = within(Duration::from_secs(2), "the waiter is served", waiting).await.expect("granted");
    lease.release().await.expect("held to the end");
    drop_role(&role).await;
}
