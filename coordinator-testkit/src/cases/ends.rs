//! What a lease lives on ends at the server: its session is terminated, the server is killed and started again.

use super::Need;
use super::rivals::{Rivals, S, loss};
use crate::moment::Moment;
use crate::process::Answer;
use crate::stage::Stage;
use crate::{PATIENCE, measured, until, within};
use coordinator_core::{ErasureCoordinatorExt, FencingToken, Mode, Scope};
use std::time::Duration;

super::cases![
    &[Need::Network, Need::EndedSessions] => [
        a_session_that_the_server_ends_is_told_within_the_notice_and_followed,
    ],
    &[Need::OwnServer] => [
        after_a_crash_of_the_server_a_lease_lives_or_its_loss_is_told,
        while_the_server_is_away_a_request_fails_or_waits_and_leaves_nothing,
        fencing_tokens_grow_across_crashes_of_the_server,
    ],
];

async fn a_session_that_the_server_ends_is_told_within_the_notice_and_followed(stage: Stage) {
    stage.allow_overlap(stage.promises().notice);
    let (mut notices, mut overlaps) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let mut rivals = Rivals::start(&stage).await;
        let ended = Moment::now();
        stage.end_sessions(rivals.holder.env()).await;
        let loss = loss(&rivals.holder, PATIENCE).await;
        assert!(loss.reason != "ShutDown" && loss.reason != "Revoked", "{}", loss.reason);
        let granted = rivals.granted(PATIENCE).await;
        notices.push(loss.told.since(ended));
        overlaps.push(loss.believed.since(granted));
        assert_eq!(rivals.holder.is_live(S).await, Answer::Live(false));
        rivals.holder.release(S).await.lost();
        assert_eq!(rivals.next.is_live(S).await, Answer::Live(true));
        // And it goes on, with a new session.
        rivals.next.release(S).await.done();
        rivals.holder.acquire(S, Mode::Exclusive, PATIENCE).await.granted();
    }
    let (_, latest) = measured("a session is ended at the server: until the loss was told", &mut notices);
    let (_, longest) = measured("a session is ended at the server: overlap of belief", &mut overlaps);
    let notice = stage.promises().notice;
    assert!(latest <= notice && longest <= notice, "{notices:?} {overlaps:?}");
}

fn scope() -> Scope {
    Scope::new("s").expect("valid")
}

async fn after_a_crash_of_the_server_a_lease_lives_or_its_loss_is_told(stage: Stage) {
    let mut server = stage.server().await;
    let (holder, other) =
        (stage.connect_in(&stage.beside(&*server)).await, stage.connect_in(&stage.beside(&*server)).await);
    for _ in 0..2 {
        let lease = crate::soon(&holder, &scope(), Mode::Exclusive).await;
        server.kill().await;
        server.start_again().await;
        // A loss is told soon; what still verifies excludes.
        let verified = async {
            while lease.ensure_live().is_ok() {
                if lease.verify(Duration::ZERO).await.is_ok() {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            false
        };
        if within(PATIENCE, "an end of the doubt", verified).await {
            let tried = other.acquire_within(&scope(), Mode::Shared, Duration::from_millis(300)).await;
            assert!(!matches!(tried, Ok(Some(_))) || lease.ensure_live().is_err(), "two holders");
        }
        drop(lease);
        until(PATIENCE, "the other is served", async || {
            match other.acquire_within(&scope(), Mode::Exclusive, PATIENCE).await {
                Ok(Some(lease)) => lease.release().await.is_ok(),
                Ok(None) => false,
                Err(error) => {
                    assert!(error.is_retryable(), "{error:?}");
                    false
                }
            }
        })
        .await;
    }
}

async fn while_the_server_is_away_a_request_fails_or_waits_and_leaves_nothing(stage: Stage) {
    let mut server = stage.server().await;
    let handle = stage.connect_in(&stage.beside(&*server)).await;
    server.kill().await;
    let tried = within(PATIENCE, "an answer", handle.try_acquire(&scope(), Mode::Exclusive)).await;
    assert!(tried.as_ref().is_err_and(coordinator_core::Error::is_retryable), "{tried:?}");
    match handle.acquire_within(&scope(), Mode::Exclusive, Duration::from_secs(1)).await {
        Ok(lease) => assert!(lease.is_none(), "granted by nobody"),
        Err(error) => assert!(error.is_retryable(), "{error:?}"),
    }
    server.start_again().await;
    until(PATIENCE, "acquires work again, without a new coordinator", async || {
        match handle.acquire(&scope(), Mode::Exclusive).await {
            Ok(lease) => lease.release().await.is_ok(),
            Err(error) => {
                assert!(error.is_retryable(), "{error:?}");
                false
            }
        }
    })
    .await;
}

async fn fencing_tokens_grow_across_crashes_of_the_server(stage: Stage) {
    let mut server = stage.server().await;
    let handle = stage.connect_in(&stage.beside(&*server)).await;
    let mut last = FencingToken::new(0);
    for _ in 0..3 {
        for _ in 0..20 {
            let mut token = None;
            until(PATIENCE, "a token", async || {
                let Ok(lease) = handle.acquire(&scope(), Mode::Exclusive).await else { return false };
                token = lease.fence().await.ok();
                token.is_some()
            })
            .await;
            assert!(token > Some(last), "{token:?} after {last}");
            last = token.unwrap_or(last);
        }
        server.kill().await;
        server.start_again().await;
    }
}
