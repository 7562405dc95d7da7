//! The promises of `Session`.

use coordinator_core::{LossReason, Moment, Session, Upkeep};
use std::time::Duration;

#[test]
fn a_session_past_its_deadline_is_lost_for_good() {
    let session = Session::until(Moment::now());
    session.renew(Moment::now().after(Duration::from_secs(60)));
    assert_eq!(session.loss(), Some(LossReason::DeadlinePassed));
    assert!(session.remaining().is_zero());
}

#[test]
fn a_late_answer_never_moves_a_deadline_back() {
    let session = Session::until(Moment::now().after(Duration::from_secs(60)));
    session.renew(Moment::now().after(Duration::from_secs(1)));
    assert!(session.remaining() > Duration::from_secs(50));
}

#[tokio::test]
async fn the_first_reason_is_told_to_all() {
    let session = Session::unbounded();
    let (one, two) = (tokio::spawn(session.lost()), session.lost());
    session.lose(LossReason::NotHeld);
    session.lose(LossReason::Disconnected);
    assert_eq!(one.await.expect("no panic"), LossReason::NotHeld);
    assert_eq!(two.await, LossReason::NotHeld);
}

#[tokio::test]
async fn the_deadline_is_told_without_anybody_looking() {
    let session = Session::until(Moment::now().after(Duration::from_millis(30)));
    let told = session.lost();
    tokio::spawn(session.expiry(&Upkeep::Process));
    assert_eq!(told.await, LossReason::DeadlinePassed);
}
