//! Links that fall silent: nothing passes, and nobody is told.

use crate::kit::belief;
use crate::kit::environment::{builder, coordinator, scope, unique, url};
use crate::kit::proxy::{Proxy, link_to, way};
use coordinator_postgres::{
    ErasureCoordinator, ErasureCoordinatorExt, ErrorKind, LossReason, Mode, PostgresCoordinator, under_lock,
};
use coordinator_testkit::{Moment, measured, until, within};
use std::sync::Arc;
use std::time::{Duration, Instant};

crate::trials![
    a_try_whose_reply_comes_after_the_callers_limit_leaves_no_holder,
    a_silent_link_is_told_at_the_deadline_and_before_the_scope_is_given_away,
    replies_that_stop_are_told_at_the_deadline_and_free_the_scope,
    requests_that_stop_are_told_at_the_deadline_and_free_the_scope,
    an_answer_after_the_deadline_does_not_bring_a_lease_back,
    work_under_a_lock_ends_when_the_link_falls_silent,
    a_release_and_a_shutdown_over_a_silent_link_end_in_time,
];

const SOON: Duration = Duration::from_secs(5);
/// How late a timer may be on a busy machine.
const LATE: Duration = Duration::from_millis(300);

async fn a_try_whose_reply_comes_after_the_callers_limit_leaves_no_holder() {
    let (proxy, namespace) = (link_to(&url()).await, unique("late"));
    let behind = builder(&way(&proxy, &url()), &namespace).connect().await.expect("the server is there");
    let other = coordinator(&url(), &namespace).await;
    let limit = Duration::from_millis(60);
    for delay in [40, 60, 80, 200] {
        proxy.delay(Duration::from_millis(delay));
        for round in 0..5 {
            let subject = scope("s");
            let tried = tokio::time::timeout(limit, behind.try_acquire(&subject, Mode::Exclusive)).await;
            let acquired = behind.acquire_within(&scope("t"), Mode::Exclusive, limit).await;
            // A limit that passed leaves nothing; a lease in time is dropped here.
            drop((tried, acquired));
            for name in ["s", "t"] {
                let lease =
                    other.acquire_within(&scope(name), Mode::Exclusive, SOON).await.expect("the server is there");
                let lease = lease.unwrap_or_else(|| panic!("{delay} ms, round {round}: {name} is held by nobody"));
                lease.release().await.expect("held to the end");
            }
        }
    }
    proxy.delay(Duration::ZERO);
    until(SOON, "nothing is left in the instance", async || behind.scopes() == 0).await;
}

/// The link falls silent while another instance waits: who believed what, and when.
async fn falls_silent(what: &str, of_instances: bool, of_server: bool) {
    let (proxy, namespace) = (link_to(&url()).await, unique("silent"));
    let building = builder(&way(&proxy, &url()), &namespace).dead_peer_timeout(Duration::from_secs(5));
    let behind = building.release_when_silent_for(Duration::from_secs(3)).connect().await.expect("the server is there");
    let next = Arc::new(coordinator(&url(), &namespace).await);
    let lease = Arc::new(behind.acquire(&scope("s"), Mode::Exclusive).await.expect("granted"));
    let waiting = crate::crash::in_line(&next, "s").await;
    lease.verify(Duration::from_secs(1)).await.expect("held");
    let (believed, lost) = (belief::watch(&lease), lease.lost());

    let deadline = lease.remaining();
    proxy.silence(of_instances, of_server);
    let silent = Moment::now();
    let reason = within(deadline + LATE, "the loss is told at the deadline", lost).await;
    let told = silent.elapsed();
    assert_eq!(reason, LossReason::DeadlinePassed);
    assert!(lease.ensure_live().is_err());
    let (other, granted) = crate::crash::granted(waiting, 2 * SOON).await;
    let believed = believed.join().expect("no panic");
    assert!(believed < granted, "two believed for {:?}", believed.since(granted));
    measured(&format!("{what}: until the loss was told (deadline {deadline:.1?})"), &mut [told]);
    measured(&format!("{what}: until the next grant"), &mut [granted.since(silent)]);
    assert!(granted.since(silent) <= SOON, "{:?}", granted.since(silent));

    // The scope is the other's, whatever comes through now; and the instance works again.
    proxy.heal();
    assert!(lease.verify(Duration::ZERO).await.is_err_and(|error| error.is_lost()));
    assert!(behind.try_acquire(&scope("s"), Mode::Shared).await.expect("the link is whole").is_none());
    other.release().await.expect("held to the end");
    let again = within(SOON, "it is served", behind.acquire(&scope("s"), Mode::Exclusive)).await.expect("granted");
    again.release().await.expect("held to the end");
}

async fn a_silent_link_is_told_at_the_deadline_and_before_the_scope_is_given_away() {
    falls_silent("a silent link", true, true).await;
}

async fn replies_that_stop_are_told_at_the_deadline_and_free_the_scope() {
    falls_silent("replies stop", false, true).await;
}

async fn requests_that_stop_are_told_at_the_deadline_and_free_the_scope() {
    falls_silent("requests stop", true, false).await;
}

async fn silenced(dead: u64) -> (Proxy, PostgresCoordinator) {
    let proxy = link_to(&url()).await;
    let building = builder(&way(&proxy, &url()), &unique("silent")).dead_peer_timeout(Duration::from_secs(dead));
    let behind = building.connect().await.expect("the server is there");
    (proxy, behind)
}

async fn an_answer_after_the_deadline_does_not_bring_a_lease_back() {
    let (proxy, behind) = silenced(4).await;
    let lease = behind.acquire(&scope("s"), Mode::Exclusive).await.expect("granted");
    proxy.silence(false, true);
    let verifying = tokio::join!(lease.verify(Duration::ZERO), lease.fence());
    assert_eq!(verifying.0.expect_err("silent").kind(), ErrorKind::Lost(LossReason::DeadlinePassed));
    assert_eq!(verifying.1.expect_err("silent").kind(), ErrorKind::Lost(LossReason::DeadlinePassed));
    proxy.heal();
    let new = within(SOON, "a new session", behind.acquire(&scope("s"), Mode::Exclusive)).await.expect("granted");
    new.verify(Duration::from_secs(1)).await.expect("held");
    assert!(lease.ensure_live().is_err() && lease.remaining().is_zero());
    let released = lease.release().await.expect_err("lost for good");
    assert_eq!(released.kind(), ErrorKind::Lost(LossReason::DeadlinePassed));
    new.verify(Duration::from_secs(1)).await.expect("the old lease's release did not touch it");
}

async fn work_under_a_lock_ends_when_the_link_falls_silent() {
    let (proxy, behind) = silenced(4).await;
    let begin = Instant::now();
    let subject = scope("s");
    let working = under_lock(&behind, &subject, Mode::Exclusive, async |lease| {
        proxy.silence(true, true);
        std::future::pending::<()>().await;
        lease.ensure_live()
    });
    let error = within(SOON, "the work ends", working).await.expect_err("lost");
    assert_eq!(error.kind(), ErrorKind::Lost(LossReason::DeadlinePassed));
    measured("work under a lock, from a silent link until it was ended", &mut [begin.elapsed()]);
}

async fn a_release_and_a_shutdown_over_a_silent_link_end_in_time() {
    let (proxy, behind) = silenced(4).await;
    let released = behind.acquire(&scope("released"), Mode::Exclusive).await.expect("granted");
    let left = behind.acquire(&scope("left"), Mode::Shared).await.expect("granted");
    proxy.silence(true, true);
    let deadline = released.remaining();
    let error = within(deadline + LATE, "an answer by the deadline", released.release()).await.expect_err("silent");
    assert!(error.is_lost(), "{error:?}");
    assert!(left.ensure_live().is_err());
    let begin = Instant::now();
    let shutdown = within(SOON, "the end", behind.shutdown(Duration::from_millis(200))).await.expect("its tasks run");
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    assert!(shutdown.left.is_empty(), "what was lost before is not left: {shutdown:?}");
    let error = behind.acquire(&scope("s"), Mode::Exclusive).await.expect_err("shut down");
    assert_eq!(error.kind(), ErrorKind::ShutDown);
}
