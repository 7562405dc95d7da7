//! Links that are cut or fall silent between an instance and its server.

use super::Need;
use super::rivals::{LATE, Loss, Rivals, S, loss};
use crate::moment::Moment;
use crate::process::Answer;
use crate::stage::Stage;
use crate::{PATIENCE, measured, until, within};
use coordinator_core::{ErasureCoordinatorExt, Mode, Scope};
use std::time::Duration;

super::cases![
    &[Need::Network, Need::Link] => [
        a_cut_link_leaves_one_who_believes_but_for_the_notice,
        a_try_whose_reply_comes_after_the_callers_limit_leaves_no_holder,
        a_slow_link_loses_no_lease,
    ],
    &[Need::Network, Need::Link, Need::Deadline] => [
        a_silent_link_is_told_by_the_deadline_and_before_another_has_the_scope,
        replies_that_stop_are_told_by_the_deadline_and_before_another_has_the_scope,
        requests_that_stop_are_told_by_the_deadline_and_before_another_has_the_scope,
        what_is_asked_over_a_silent_link_is_answered_by_the_deadline,
    ],
];

/// The lease either outlives the cut, or its loss is told.
async fn a_cut_link_leaves_one_who_believes_but_for_the_notice(stage: Stage) {
    stage.allow_overlap(stage.promises().notice);
    let mut overlaps = Vec::new();
    for _ in 0..5 {
        let link = stage.link().await;
        let mut rivals = Rivals::with_holder_in(&stage, &stage.behind(&link)).await;
        link.cut();
        match tokio::time::timeout(stage.promises().notice, loss(&rivals.holder, PATIENCE)).await {
            Ok(Loss { believed, .. }) => overlaps.push(believed.since(rivals.granted(PATIENCE).await)),
            Err(_) => {
                let released = Moment::now();
                match rivals.holder.release(S).await {
                    // Whether the server has heard it is not known, where that failed.
                    Answer::Done | Answer::Failed { is_lost: true, .. } | Answer::Failed { is_retryable: true, .. } => {
                    }
                    other => panic!("{other:?} instead of an end"),
                }
                assert!(rivals.granted(PATIENCE).await >= released, "granted while another believed");
            }
        }
        assert_eq!(rivals.next.is_live(S).await, Answer::Live(true));
        rivals.next.release(S).await.done();
        rivals.holder.acquire(S, Mode::Exclusive, PATIENCE).await.granted();
    }
    if !overlaps.is_empty() {
        let (_, longest) = measured("a cut link: overlap of belief", &mut overlaps);
        assert!(longest <= stage.promises().notice, "{overlaps:?}");
    }
}

async fn a_try_whose_reply_comes_after_the_callers_limit_leaves_no_holder(stage: Stage) {
    let link = stage.link().await;
    let (behind, other) = (stage.connect_in(&stage.behind(&link)).await, stage.connect().await);
    let limit = Duration::from_millis(60);
    let (tried, acquired) = (Scope::new("tried").expect("valid"), Scope::new("acquired").expect("valid"));
    for delay in [40, 60, 80, 200] {
        link.delay(Duration::from_millis(delay));
        for _ in 0..3 {
            // A limit that passed leaves nothing; a lease in time is dropped here.
            drop(tokio::time::timeout(limit, behind.try_acquire(&tried, Mode::Exclusive)).await);
            drop(behind.acquire_within(&acquired, Mode::Exclusive, limit).await);
            for scope in [&tried, &acquired] {
                crate::is_free(&other, scope).await;
            }
        }
    }
}

async fn a_slow_link_loses_no_lease(stage: Stage) {
    let link = stage.link().await;
    let (behind, other) = (stage.connect_in(&stage.behind(&link)).await, stage.connect().await);
    let scope = Scope::new(S).expect("valid");
    let lease = crate::soon(&behind, &scope, Mode::Exclusive).await;
    link.delay(Duration::from_millis(150));
    let begin = Moment::now();
    let time = stage.promises().deadline.unwrap_or(Duration::from_secs(3)) + Duration::from_secs(1);
    until(2 * time, "a while", async || begin.elapsed() > time).await;
    lease.verify(Duration::ZERO).await.expect("held");
    assert!(other.try_acquire(&scope, Mode::Shared).await.expect("an answer").is_none());
    lease.release().await.expect("held to the end");
}

async fn a_silent_link_is_told_by_the_deadline_and_before_another_has_the_scope(stage: Stage) {
    falls_silent("a silent link", stage, true, true).await;
}

async fn replies_that_stop_are_told_by_the_deadline_and_before_another_has_the_scope(stage: Stage) {
    falls_silent("replies stop", stage, false, true).await;
}

async fn requests_that_stop_are_told_by_the_deadline_and_before_another_has_the_scope(stage: Stage) {
    falls_silent("requests stop", stage, true, false).await;
}

async fn falls_silent(what: &str, stage: Stage, of_instances: bool, of_servers: bool) {
    let (link, promises) = (stage.link().await, *stage.promises());
    let mut rivals = Rivals::with_holder_in(&stage, &stage.behind(&link)).await;
    let silent = Moment::now();
    link.silence(of_instances, of_servers);
    let loss = loss(&rivals.holder, promises.deadline.unwrap_or_default() + LATE).await;
    measured(&format!("{what}: until the loss was told"), &mut [loss.told.since(silent)]);
    assert_eq!(rivals.holder.is_live(S).await, Answer::Live(false));
    if let Some(limit) = promises.silent_release {
        let granted = rivals.granted(limit).await;
        measured(&format!("{what}: until the next grant"), &mut [granted.since(silent)]);
        assert!(loss.believed < granted, "two believed for {:?}", loss.believed.since(granted));
    }
    link.heal();
    if promises.silent_release.is_none() {
        let granted = rivals.granted(PATIENCE).await;
        assert!(loss.believed < granted, "two believed for {:?}", loss.believed.since(granted));
    }
    // The scope is the other's, whatever comes through now; and the instance works again.
    assert_eq!(rivals.holder.is_live(S).await, Answer::Live(false));
    rivals.holder.release(S).await.lost();
    assert_eq!(rivals.next.is_live(S).await, Answer::Live(true));
    rivals.next.release(S).await.done();
    rivals.holder.acquire(S, Mode::Exclusive, PATIENCE).await.granted();
}

async fn what_is_asked_over_a_silent_link_is_answered_by_the_deadline(stage: Stage) {
    let link = stage.link().await;
    let behind = stage.connect_in(&stage.behind(&link)).await;
    let limit = stage.promises().deadline.unwrap_or_default() + LATE;
    for what in ["verify", "fence", "release"] {
        let lease = crate::soon(&behind, &crate::fresh_scope(), Mode::Exclusive).await;
        link.silence(true, true);
        let asked = async {
            match what {
                "verify" => lease.verify(Duration::ZERO).await.err(),
                "fence" => lease.fence().await.err(),
                _ => lease.release().await.err(),
            }
        };
        let error = within(limit, what, asked).await.unwrap_or_else(|| panic!("{what}: nobody could answer"));
        assert!(error.is_lost() || error.is_retryable(), "{what}: {error:?}");
        link.heal();
    }
    crate::is_free(&behind, &crate::fresh_scope()).await;
}
