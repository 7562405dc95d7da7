//! Processes that are killed: whoever waits goes on within the stated time.

use super::Need;
use super::rivals::{Rivals, S, in_line, seen};
use crate::moment::Moment;
use crate::process::Command;
use crate::stage::Stage;
use crate::{PATIENCE, measured, until, within};
use coordinator_core::Mode;
use std::time::Duration;

super::cases![
    &[Need::Processes] => [
        a_killed_holder_is_followed_in_time,
        a_killed_shared_holder_is_followed_in_time,
        a_killed_waiter_is_out_of_the_way_in_time,
        a_waiter_killed_at_the_head_of_the_queue_eats_no_grant,
        a_process_killed_with_a_hundred_leases_frees_them_all,
        a_process_killed_in_mid_operation_leaves_nothing_held,
        a_process_killed_during_an_irreversible_step_frees_the_scope_and_not_before,
    ],
];

async fn a_killed_holder_is_followed_in_time(stage: Stage) {
    let mut took = Vec::new();
    for _ in 0..4 {
        let mut rivals = Rivals::start(&stage).await;
        let killed = Moment::now();
        rivals.holder.kill();
        took.push(rivals.granted(stage.promises().crash_release).await.since(killed));
        rivals.next.release(S).await.done();
    }
    measured("SIGKILL of a holder to the next grant", &mut took);
}

async fn a_killed_shared_holder_is_followed_in_time(stage: Stage) {
    let (holder, other, next) = (stage.process().await, stage.process().await, stage.process().await);
    holder.acquire(S, Mode::Shared, PATIENCE).await.granted();
    other.acquire(S, Mode::Shared, PATIENCE).await.granted();
    let mut waiting = in_line(&next, 1).await;
    let killed = Moment::now();
    holder.kill();
    until(stage.promises().crash_release, "one holder is left", async || seen(&next).await.0 == 1).await;
    assert!(tokio::time::timeout(Duration::from_millis(50), &mut waiting).await.is_err(), "another shares it still");
    other.kill();
    let granted = within(stage.promises().crash_release, "the next grant", waiting).await.granted();
    measured("SIGKILL of two shared holders to the next grant", &mut [granted.since(killed)]);
}

async fn a_killed_waiter_is_out_of_the_way_in_time(stage: Stage) {
    let mut rivals = Rivals::start(&stage).await;
    let killed = Moment::now();
    rivals.next.kill();
    let limit = stage.promises().waiter_release;
    until(limit, "it left the queue", async || seen(&rivals.holder).await.1 == 0).await;
    measured("SIGKILL of a waiter until it left the queue", &mut [killed.elapsed()]);
    rivals.next = stage.process().await;
    rivals.holder.release(S).await.done();
    rivals.next.acquire(S, Mode::Exclusive, PATIENCE).await.granted();
}

async fn a_waiter_killed_at_the_head_of_the_queue_eats_no_grant(stage: Stage) {
    let rivals = Rivals::start(&stage).await;
    let last = stage.process().await;
    let waiting = in_line(&last, 2).await;
    rivals.next.kill();
    let killed = Moment::now();
    rivals.holder.release(S).await.done();
    let granted = within(stage.promises().waiter_release, "who waits behind it", waiting).await.granted();
    measured("SIGKILL of the first waiter, and a release, to the grant of the second", &mut [granted.since(killed)]);
}

async fn a_process_killed_with_a_hundred_leases_frees_them_all(stage: Stage) {
    let (holder, next) = (stage.process().await, stage.process().await);
    holder.ask(Command::AcquireMany { scopes: 100 }).await.granted();
    assert!(!next.try_acquire("many-99", Mode::Shared).await.is_granted());
    let killed = Moment::now();
    holder.kill();
    let all = next.ask(Command::AcquireMany { scopes: 100 });
    let granted = within(stage.promises().crash_release, "all of them", all).await.granted();
    measured("SIGKILL with 100 leases until another has them all", &mut [granted.since(killed)]);
}

async fn a_process_killed_in_mid_operation_leaves_nothing_held(stage: Stage) {
    let next = stage.process().await;
    let mut took = Vec::new();
    for round in 0..10 {
        let holder = stage.process().await;
        let churns = holder.tell(Command::Churn { scope: S.into() }).await;
        tokio::time::sleep(Duration::from_micros(10_000 + 377 * round)).await; // somewhere in the middle
        holder.kill();
        drop(churns);
        let killed = Moment::now();
        took.push(next.acquire(S, Mode::Exclusive, stage.promises().crash_release).await.granted().since(killed));
        next.release(S).await.done();
    }
    measured("SIGKILL in mid-operation until another has the scope", &mut took);
}

async fn a_process_killed_during_an_irreversible_step_frees_the_scope_and_not_before(stage: Stage) {
    let mut rivals = Rivals::start(&stage).await;
    let step = rivals.holder.tell(Command::Step { scope: S.into(), time: 2 * PATIENCE }).await;
    rivals.is_excluded_for(Duration::from_millis(200)).await;
    let killed = Moment::now();
    rivals.holder.kill();
    drop(step);
    let granted = rivals.granted(stage.promises().crash_release).await;
    assert!(granted >= killed, "granted while the step ran");
}
