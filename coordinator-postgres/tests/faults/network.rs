//! Links that fall silent: nothing passes, and nobody is told.

use crate::kit::environment::{builder, scope, unique, url};
use crate::kit::proxy::{Proxy, link_to, way};
use coordinator_postgres::{ErasureCoordinator, ErrorKind, LossReason, Mode, PostgresCoordinator, under_lock};
use coordinator_testkit::{measured, within};
use std::time::{Duration, Instant};

crate::trials![
    an_answer_after_the_deadline_does_not_bring_a_lease_back,
    work_under_a_lock_ends_when_the_link_falls_silent,
    a_release_and_a_shutdown_over_a_silent_link_end_in_time,
];

const SOON: Duration = Duration::from_secs(5);
/// How late a timer may be on a busy machine.
const LATE: Duration = Duration::from_millis(300);

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
