//! Processes that are frozen, and wake again.

use super::Need;
use super::rivals::{LATE, Rivals, S, in_line, loss};
use crate::moment::Moment;
use crate::process::{Answer, Command};
use crate::stage::Stage;
use crate::{PATIENCE, measured, until, within};
use coordinator_core::{FencingGate, FencingToken, Mode};
use std::time::Duration;

super::cases![
    &[Need::Processes] => [
        a_frozen_waiter_is_in_nobodys_way_and_is_served_when_it_wakes,
    ],
    &[Need::Processes, Need::Deadline] => [
        a_holder_frozen_past_its_deadline_is_lost_before_it_does_anything,
        a_holder_frozen_for_less_than_its_deadline_goes_on,
        a_holder_whose_runtime_is_blocked_keeps_its_lease,
    ],
    &[Need::Processes, Need::SilentRelease] => [
        a_frozen_holder_is_followed_in_time_and_its_token_is_stale,
    ],
];

async fn stays_frozen_for(since: Moment, time: Duration) {
    until(time + LATE, "it is frozen for long enough", async || since.elapsed() > time).await;
}

async fn a_frozen_waiter_is_in_nobodys_way_and_is_served_when_it_wakes(stage: Stage) {
    let mut rivals = Rivals::start(&stage).await;
    let last = stage.process().await;
    let waiting = in_line(&last, 2).await;
    rivals.next.freeze();
    let released = Moment::now();
    rivals.holder.release(S).await.done();
    let granted = within(stage.promises().waiter_release, "who waits behind it", waiting).await.granted();
    measured("a waiter is frozen and then granted: until the next grant", &mut [granted.since(released)]);
    rivals.next.thaw();
    last.release(S).await.done();
    rivals.granted(PATIENCE).await;
}

fn deadline(stage: &Stage) -> Duration {
    stage.promises().deadline.unwrap_or_default()
}

async fn a_holder_frozen_past_its_deadline_is_lost_before_it_does_anything(stage: Stage) {
    let mut rivals = Rivals::start(&stage).await;
    rivals.holder.freeze();
    let frozen = Moment::now();
    stays_frozen_for(frozen, deadline(&stage) + LATE).await;
    let first = rivals.holder.tell(Command::EnsureLive { scope: S.into() }).await; // what it does when it wakes
    rivals.holder.thaw();
    assert_eq!(first.await, Answer::Live(false));
    let loss = loss(&rivals.holder, PATIENCE).await;
    let granted = rivals.granted(PATIENCE).await;
    assert!(loss.believed < granted, "two believed for {:?}", loss.believed.since(granted));
    assert!(loss.believed.since(frozen) < LATE, "it believed after it woke");
    rivals.holder.release(S).await.lost();
    // What the woken holder did has not touched the other's lease.
    assert_eq!(rivals.next.is_live(S).await, Answer::Live(true));
    assert!(!rivals.holder.try_acquire(S, Mode::Shared).await.is_granted());
    rivals.next.release(S).await.done();
    rivals.holder.acquire(S, Mode::Exclusive, PATIENCE).await.granted();
}

async fn a_holder_frozen_for_less_than_its_deadline_goes_on(stage: Stage) {
    let mut rivals = Rivals::start(&stage).await;
    rivals.holder.freeze();
    stays_frozen_for(Moment::now(), deadline(&stage) / 2).await;
    let first = rivals.holder.tell(Command::EnsureLive { scope: S.into() }).await;
    rivals.holder.thaw();
    assert_eq!(first.await, Answer::Live(true));
    rivals.is_excluded_for(Duration::from_millis(50)).await;
    rivals.holder.release(S).await.done();
    rivals.granted(PATIENCE).await;
}

async fn a_holder_whose_runtime_is_blocked_keeps_its_lease(stage: Stage) {
    let mut rivals = Rivals::start(&stage).await;
    let begin = Moment::now();
    let time = deadline(&stage) + LATE;
    let blocked = rivals.holder.tell(Command::Block { time }).await;
    rivals.is_excluded_for(time).await;
    blocked.await.done();
    measured("a runtime was blocked, and its lease lives", &mut [begin.elapsed()]);
    rivals.holder.release(S).await.done();
    rivals.granted(PATIENCE).await;
}

async fn a_frozen_holder_is_followed_in_time_and_its_token_is_stale(stage: Stage) {
    let mut rivals = Rivals::start(&stage).await;
    let stale = rivals.holder.fence(S).await.token();
    rivals.holder.freeze();
    let frozen = Moment::now();
    let granted = rivals.granted(stage.promises().silent_release.unwrap_or_default()).await;
    measured("a holder is frozen: until the next grant", &mut [granted.since(frozen)]);
    let mut gate = FencingGate::default();
    let token = rivals.next.fence(S).await.token();
    assert!(gate.admit(Mode::Exclusive, FencingToken::new(token)), "the holder's own write");
    let first = rivals.holder.tell(Command::EnsureLive { scope: S.into() }).await;
    rivals.holder.thaw();
    assert_eq!(first.await, Answer::Live(false));
    let loss = loss(&rivals.holder, PATIENCE).await;
    assert!(loss.believed < granted, "two believed for {:?}", loss.believed.since(granted));
    assert!(!gate.admit(Mode::Exclusive, FencingToken::new(stale)), "a write of who was frozen");
    rivals.holder.release(S).await.lost();
    rivals.next.release(S).await.done();
}
