//! A server that goes away and comes back.

use crate::kit::environment::{builder, coordinator, scope, unique, url};
use crate::kit::proxy::{link_to, way};
use crate::kit::server::{Server, Stop};
use coordinator_postgres::{ErasureCoordinator, ErrorKind, LossReason, Mode, PostgresCoordinator, WhenUnavailable};
use coordinator_testkit::{measured, until, within};
use std::sync::Arc;
use std::time::{Duration, Instant};

crate::trials![
    a_restart_is_told_to_every_lease_and_later_acquires_work,
    an_acquire_while_the_server_is_away_fails_in_time,
    an_acquire_while_the_link_is_silent_fails_within_the_connect_timeout,
    an_acquire_that_may_wait_is_served_after_the_restart,
    a_wait_in_line_outlasts_a_restart_if_it_may_and_fails_if_not,
];

const SOON: Duration = Duration::from_secs(5);

async fn works_again(coordinator: &PostgresCoordinator) {
    until(2 * SOON, "acquires work again", async || match coordinator.acquire(&scope("s"), Mode::Exclusive).await {
        Ok(lease) => lease.release().await.is_ok(),
        Err(error) => {
            assert!(error.is_retryable(), "{error:?}");
            false
        }
    })
    .await;
}

async fn a_restart_is_told_to_every_lease_and_later_acquires_work() {
    let mut server = Server::start().await;
    let coordinator = coordinator(&server.url(), &unique("restart")).await;
    let mut took = Vec::new();
    for how in [Stop::Fast, Stop::Immediate, Stop::Fast] {
        let one = coordinator.acquire(&scope("one"), Mode::Exclusive).await.expect("granted");
        let two = coordinator.acquire(&scope("two"), Mode::Shared).await.expect("granted");
        let stopping = Instant::now();
        server.stop(how);
        for lease in [&one, &two] {
            assert_eq!(within(SOON, "the loss is told", lease.lost()).await, LossReason::Disconnected);
            assert!(lease.ensure_live().is_err() && lease.remaining().is_zero());
        }
        took.push(stopping.elapsed());
        assert!(one.fence().await.is_err_and(|error| error.is_lost()));
        server.start_again().await;
        works_again(&coordinator).await;
        assert!(one.release().await.is_err_and(|error| error.is_lost()), "it is lost for good");
        assert!(two.verify(Duration::ZERO).await.is_err_and(|error| error.is_lost()));
    }
    measured("a stop of the server until it has stopped and the loss was told", &mut took);
}

async fn an_acquire_while_the_server_is_away_fails_in_time() {
    let mut server = Server::start().await;
    let coordinator = coordinator(&server.url(), &unique("restart")).await;
    server.stop(Stop::Fast);
    let begin = Instant::now();
    for _ in 0..3 {
        let error = coordinator.acquire(&scope("s"), Mode::Exclusive).await.expect_err("away");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let error = coordinator.try_acquire(&scope("s"), Mode::Shared).await.expect_err("away");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        let error = coordinator.inspect(&scope("s")).await.expect_err("away");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    assert_eq!(coordinator.scopes(), 0);
    server.start_again().await;
    works_again(&coordinator).await;
}

async fn an_acquire_while_the_link_is_silent_fails_within_the_connect_timeout() {
    let proxy = link_to(&url()).await;
    let building = builder(&way(&proxy, &url()), &unique("silent")).connect_timeout(Duration::from_secs(1));
    let coordinator = building.connect().await.expect("the server is there");
    let lease = coordinator.acquire(&scope("s"), Mode::Exclusive).await.expect("granted");
    proxy.silence(true, true);
    proxy.cut();
    within(SOON, "the loss is told", lease.lost()).await;
    let begin = Instant::now();
    let error = within(SOON, "an answer", coordinator.acquire(&scope("s"), Mode::Exclusive)).await.expect_err("silent");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(begin.elapsed() < Duration::from_millis(1_500), "{:?}", begin.elapsed());
    proxy.heal();
    works_again(&coordinator).await;
}

async fn an_acquire_that_may_wait_is_served_after_the_restart() {
    let mut server = Server::start().await;
    let building = builder(&server.url(), &unique("restart")).when_unavailable(WhenUnavailable::Wait);
    let coordinator = Arc::new(building.connect().await.expect("the server is there"));
    server.stop(Stop::Immediate);
    let waiter = Arc::clone(&coordinator);
    let waiting = tokio::spawn(async move { waiter.acquire(&scope("s"), Mode::Exclusive).await });
    let dropped =
        tokio::time::timeout(Duration::from_millis(300), coordinator.acquire(&scope("t"), Mode::Shared)).await;
    assert!(dropped.is_err(), "it waits: {dropped:?}");
    let tried = within(SOON, "an answer", coordinator.try_acquire(&scope("u"), Mode::Shared)).await;
    assert!(tried.is_err_and(|error| error.is_retryable()), "a try does not wait");
    assert!(!waiting.is_finished());
    server.start_again().await;
    let back = Instant::now();
    let lease = within(SOON, "it is served", waiting).await.expect("no panic").expect("granted");
    measured("a server that is back until who waited for it is served", &mut [back.elapsed()]);
    lease.release().await.expect("held to the end");
    until(SOON, "who was dropped waits no more", async || coordinator.scopes() == 0).await;
}

async fn a_wait_in_line_outlasts_a_restart_if_it_may_and_fails_if_not() {
    let mut server = Server::start().await;
    let namespace = unique("restart");
    let holder = coordinator(&server.url(), &namespace).await;
    let held = holder.acquire(&scope("s"), Mode::Exclusive).await.expect("granted");
    let patient = builder(&server.url(), &namespace).when_unavailable(WhenUnavailable::Wait);
    let patient = Arc::new(patient.connect().await.expect("the server is there"));
    let other = builder(&server.url(), &namespace).connect().await.expect("the server is there");
    let waiting = crate::crash::in_line(&patient, "s").await;
    let failing = tokio::spawn(async move { other.acquire(&scope("s"), Mode::Exclusive).await });
    until(SOON, "both stand in line", async || {
        holder.inspect(&scope("s")).await.expect("the server is there").waiters.len() == 2
    })
    .await;
    server.stop(Stop::Immediate);
    within(SOON, "the loss is told", held.lost()).await;
    let failed = within(2 * SOON, "an answer", failing).await.expect("no panic").expect_err("away");
    assert_eq!(failed.kind(), ErrorKind::Unavailable, "{failed}");
    server.start_again().await;
    let (lease, _) = crate::crash::granted(waiting, 2 * SOON).await;
    lease.release().await.expect("held to the end");
}
