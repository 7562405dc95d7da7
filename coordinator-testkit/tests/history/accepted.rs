use crate::story::{EXCLUSIVE, SHARED, Story};
use coordinator_testkit::history::Step;
use std::time::Duration;

#[test]
fn nothing_at_all() {
    Story::default().is_accepted();
}

#[test]
fn one_after_the_other_at_the_same_moment() {
    Story::default()
        .holds(0..10, "a", EXCLUSIVE)
        .holds(10..20, "b", EXCLUSIVE)
        .holds(20..30, "a", SHARED)
        .is_accepted();
}

#[test]
fn shared_leases_that_coexist() {
    Story::default().holds(0..10, "a", SHARED).holds(5..20, "b", SHARED).holds(20..30, "c", EXCLUSIVE).is_accepted();
}

#[test]
fn leases_of_other_scopes() {
    let mut story = Story::default().holds(0..10, "a", EXCLUSIVE);
    let other = Story::default().holds(0..10, "b", EXCLUSIVE);
    let renamed = other.0.to_json_lines().replace("\"scope\":\"s\"", "\"scope\":\"t\"");
    story.0.merge(coordinator_testkit::history::History::from_json_lines(&renamed).expect("as it was written"));
    story.is_accepted();
    assert_eq!(story.0.beliefs().len(), 2);
}

#[test]
fn who_was_refused_failed_or_gave_up_and_asks_again() {
    let told = [Step::Refused, Step::Failed("away".into()), Step::Dropped];
    for step in told {
        Story::default().asks(0, "a", EXCLUSIVE).did(1, "a", step).holds(2..3, "a", SHARED).is_accepted();
    }
}

#[test]
fn a_killed_holder_and_a_killed_waiter() {
    let story = Story::default().takes(0, "a", EXCLUSIVE).asks(1, "b", EXCLUSIVE).asks(2, "c", EXCLUSIVE);
    let story = story.killed(5, "a").killed(6, "c").did(7, "b", Step::Grant(EXCLUSIVE)).did(9, "b", Step::Release);
    story.is_accepted();
}

#[test]
fn what_a_process_says_while_it_is_being_killed() {
    let story = Story::default().asks(0, "a", EXCLUSIVE).killed(5, "a").did(5, "a", Step::Grant(EXCLUSIVE));
    story.token(5..6, "a", 1).holds(5..9, "b", EXCLUSIVE).is_accepted();
}

#[test]
fn a_frozen_holder_that_finds_its_loss_when_it_wakes() {
    // The end of belief is found out later, and lies before the freeze.
    let story = Story::default().takes(0, "a", EXCLUSIVE).holds(20..30, "b", EXCLUSIVE);
    let story = story.lost(40, "a").did(10, "a", Step::BeliefEnded).did(41, "a", Step::Release);
    story.did(42, "a", Step::Failed("lost".into())).is_accepted();
}

#[test]
fn an_overlap_that_the_fault_permits() {
    let story = Story::default().takes(0, "a", EXCLUSIVE).lost(13, "a").holds(10..20, "b", EXCLUSIVE);
    story.is_accepted_within(3);
    assert_eq!(story.0.check(&coordinator_testkit::history::Allowed::overlap(Duration::from_micros(2_999))).len(), 1);
    assert_eq!(story.0.greatest_overlap(), Duration::from_millis(3));
}

#[test]
fn tokens_of_shared_leases_in_any_order_while_their_calls_overlap() {
    let story = Story::default().holds(0..10, "a", SHARED).holds(0..10, "b", SHARED);
    story.token(1..5, "a", 8).token(2..6, "b", 7).is_accepted();
}

#[test]
fn a_token_that_came_with_the_lease() {
    let story = Story::default().holds(0..10, "a", EXCLUSIVE).token(1..2, "a", 1);
    story
        .asks(3, "b", EXCLUSIVE)
        .did(10, "b", Step::Grant(EXCLUSIVE))
        .did(12, "b", Step::Release)
        .token(3..10, "b", 2)
        .is_accepted();
}
