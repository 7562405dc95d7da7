//! Processes that are frozen and wake again, and runtimes that are blocked.

use crate::kit::environment::{admin_url, builder, client, coordinator, scope, unique, url, with};
use crate::kit::instance::Instance;
use coordinator_postgres::{CREATE_FENCE_TABLE, ErasureCoordinator, FencingToken, Mode, admit};
use coordinator_testkit::{Moment, measured, until};
use std::sync::Arc;
use std::time::Duration;

crate::trials![
    a_frozen_holder_keeps_its_scope_and_is_lost_when_it_wakes,
    a_frozen_holder_gives_its_scope_up_where_that_was_chosen,
    a_frozen_holders_guarded_write_is_refused_after_another_was_in,
    who_is_not_frozen_outlives_every_time_of_silence,
];

const SOON: Duration = Duration::from_secs(5);

async fn a_frozen_holder_keeps_its_scope_and_is_lost_when_it_wakes() {
    let namespace = unique("frozen");
    let mut holder = Instance::start(&url(), &namespace, &["dead=4"]).await;
    holder.acquire("s", "exclusive").await;
    let next = Arc::new(coordinator(&url(), &namespace).await);
    let waiting = crate::crash::in_line(&next, "s").await;
    holder.freeze();
    let frozen = Moment::now();
    // Longer than the deadline, and than a peer that vanished would be believed in.
    until(2 * SOON, "it is frozen for long enough", async || frozen.elapsed() > Duration::from_secs(5)).await;
    assert!(!waiting.is_finished(), "by default a frozen holder keeps its scope");
    holder.tell("live s").await; // the first that it does when it wakes
    let woken = Moment::now();
    holder.thaw();
    assert_eq!(holder.answer("live").await, "false");
    let believed = holder.moment("believed").await;
    let (lease, granted) = crate::crash::granted(waiting, SOON).await;
    assert!(believed < granted && believed.since(frozen) < Duration::from_millis(50), "{:?}", granted.since(believed));
    measured("a frozen holder wakes past its deadline: until the next grant", &mut [granted.since(woken)]);
    lease.release().await.expect("held to the end");
    holder.acquire("s", "exclusive").await;
}

async fn a_frozen_holder_gives_its_scope_up_where_that_was_chosen() {
    let namespace = unique("frozen");
    let mut holder = Instance::start(&url(), &namespace, &["silent=3"]).await;
    holder.acquire("s", "exclusive").await;
    let next = Arc::new(coordinator(&url(), &namespace).await);
    let waiting = crate::crash::in_line(&next, "s").await;
    holder.freeze();
    let frozen = Moment::now();
    let (lease, granted) = crate::crash::granted(waiting, 2 * SOON).await;
    measured("a holder is frozen, with 3 s of silence: until the next grant", &mut [granted.since(frozen)]);
    assert!(granted.since(frozen) <= Duration::from_millis(3_500), "{:?}", granted.since(frozen));
    holder.tell("live s").await;
    holder.thaw();
    assert_eq!(holder.answer("live").await, "false");
    assert!(holder.moment("believed").await < granted);
    holder.tell("release s").await;
    assert!(holder.answer("released").await.contains("Lost"), "a release after the loss says so");
    lease.verify(Duration::from_secs(1)).await.expect("what the woken holder did has not touched it");
    lease.release().await.expect("held to the end");
}

async fn a_frozen_holders_guarded_write_is_refused_after_another_was_in() {
    let schema = unique("store").replace('-', "_");
    let admin = client(&admin_url()).await;
    admin.batch_execute(&format!("CREATE SCHEMA {schema} AUTHORIZATION coordinator")).await.expect("made");
    let store = with(&url(), &format!("options=-c%20search_path%3D{schema}"));
    let mut own = client(&store).await;
    own.batch_execute(CREATE_FENCE_TABLE).await.expect("made");

    let namespace = unique("frozen");
    let mut holder = Instance::start(&store, &namespace, &["silent=3"]).await;
    holder.acquire("s", "exclusive").await;
    holder.tell("fence s").await;
    let old = holder.answer("token").await;
    let next = Arc::new(coordinator(&url(), &namespace).await);
    let waiting = crate::crash::in_line(&next, "s").await;
    holder.freeze();
    let (lease, _) = crate::crash::granted(waiting, 2 * SOON).await;
    let new = lease.fence().await.expect("held");
    assert!(new > FencingToken::new(old.parse().expect("a number")), "{new} after {old}");
    let transaction = own.transaction().await.expect("the store is there");
    assert!(admit(&transaction, lease.scope(), lease.mode(), new).await.expect("asked"));
    transaction.commit().await.expect("the store is there");

    holder.tell(&format!("guarded s {old}")).await;
    holder.thaw();
    assert_eq!(holder.answer("admitted").await, "false");
    lease.release().await.expect("held to the end");
    admin.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.expect("dropped");
}

async fn who_is_not_frozen_outlives_every_time_of_silence() {
    let namespace = unique("healthy");
    let holder = builder(&url(), &namespace).release_when_silent_for(Duration::from_secs(3));
    let holder = holder.instance(unique("holder")).connect().await.expect("the server is there");
    let next = builder(&url(), &namespace).instance(unique("next")).connect().await.expect("the server is there");
    let (next, observer) = (Arc::new(next), client(&admin_url()).await);
    let lease = holder.acquire(&scope("s"), Mode::Exclusive).await.expect("granted");
    let waiting = crate::crash::in_line(&next, "s").await;
    let line = "SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND NOT granted
        AND application_name LIKE '% ' || $1";
    let in_line = observer.query_one(line, &[&next.instance()]).await.expect("one session waits").get::<_, i32>(0);
    // Twice the holder's time of silence, and more than a waiting session's five seconds.
    let lost = tokio::time::timeout(Duration::from_millis(6_500), lease.lost()).await;
    assert!(lost.is_err(), "{lost:?}");
    until(SOON, "the same session waits, between two slices or in one", async || {
        let waits = observer.query(line, &[&next.instance()]).await.expect("readable");
        waits.first().is_some_and(|row| row.get::<_, i32>(0) == in_line)
    })
    .await;
    lease.release().await.expect("held to the end");
    crate::crash::granted(waiting, SOON).await.0.release().await.expect("held to the end");
}
