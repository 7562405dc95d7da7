use crate::story::{EXCLUSIVE, SHARED, Story, ms};
use coordinator_testkit::history::{Step, Violation};
use std::time::Duration;

#[test]
fn two_who_believe_at_the_same_time() {
    for (first, second) in [(EXCLUSIVE, EXCLUSIVE), (EXCLUSIVE, SHARED), (SHARED, EXCLUSIVE)] {
        let story = Story::default().holds(0..10, "a", first).holds(7..20, "b", second);
        let is_it = |violation: &Violation| match violation {
            Violation::Overlap { first, second, overlap, .. } => {
                (first.process.as_str(), second.process.as_str(), *overlap) == ("a", "b", Duration::from_millis(3))
            }
            _ => false,
        };
        story.is_rejected(is_it, "both believed for 3ms");
    }
}

#[test]
fn one_who_was_granted_within_the_belief_of_a_long_gone_grant() {
    // Not the neighbour in the order of the grants: the one that believes for longest.
    let story = Story::default().holds(0..30, "a", SHARED).holds(1..2, "b", SHARED).holds(20..25, "c", EXCLUSIVE);
    story.is_rejected(|violation| matches!(violation, Violation::Overlap { first, .. } if first.process == "a"), "a/c");
}

#[test]
fn one_who_is_told_of_the_loss_after_its_successor_was_let_in() {
    let story = Story::default().takes(0, "a", EXCLUSIVE).lost(12, "a").holds(10..20, "b", SHARED);
    story.is_rejected(|violation| matches!(violation, Violation::Overlap { .. }), "until it was lost at 12000000");
}

#[test]
fn one_who_believes_again() {
    let story = Story::default().takes(0, "a", EXCLUSIVE).lost(5, "a").did(9, "a", Step::BeliefEnded);
    story.is_rejected(
        |violation| matches!(violation, Violation::BelievedAfterLoss { lost, acted, .. } if (*lost, *acted) == (ms(5), ms(9))),
        "told of the loss at 5000000 and believing again at 9000000",
    );
}

#[test]
fn one_who_believes_again_beside_its_successor() {
    let story = Story::default().takes(0, "a", EXCLUSIVE).lost(5, "a").holds(6..20, "b", EXCLUSIVE);
    let violations = story.did(9, "a", Step::BeliefEnded).violations();
    assert_eq!(violations.len(), 2, "{violations:#?}");
    assert!(violations.iter().any(|violation| matches!(violation, Violation::Overlap { .. })));
}

#[test]
fn one_who_gets_a_token_after_the_loss_was_told() {
    let story = Story::default().takes(0, "a", EXCLUSIVE).lost(5, "a").token(6..7, "a", 1);
    story.is_rejected(
        |violation| matches!(violation, Violation::BelievedAfterLoss { .. }),
        "believing again at 6000000",
    );
}

#[test]
fn a_token_that_goes_back() {
    for mode in [EXCLUSIVE, SHARED] {
        let story = Story::default().holds(0..10, "a", mode).token(1..2, "a", 9).holds(10..20, "b", mode);
        let story = story.token(11..12, "b", 8);
        let violations = story.violations();
        assert!(violations.iter().any(|violation| matches!(violation, Violation::TokenWentBack { earlier, later, .. }
            if (earlier.token, later.token) == (9, 8))));
    }
}

#[test]
fn a_token_that_goes_back_under_one_lease() {
    let story = Story::default().holds(0..10, "a", SHARED).token(1..2, "a", 9).token(3..4, "a", 8);
    story.is_rejected(|violation| matches!(violation, Violation::TokenWentBack { .. }), "token 9 was there at 2000000");
}

#[test]
fn a_token_that_is_given_twice() {
    let story =
        Story::default().holds(0..10, "a", SHARED).token(1..4, "a", 9).holds(0..10, "b", SHARED).token(2..3, "b", 9);
    story.is_rejected(|violation| matches!(violation, Violation::TokenRepeated { token: 9, .. }), "given twice");
}

#[test]
fn a_former_holder_whose_late_token_passes_its_successors() {
    // Frozen in the call: it asked before its successor was let in, and is answered after it.
    let story = Story::default().takes(0, "a", EXCLUSIVE).did(3, "a", Step::BeliefEnded).token(2..9, "a", 7);
    let story = story.holds(5..10, "b", SHARED).token(6..7, "b", 6);
    story.is_rejected(
        |violation| matches!(violation, Violation::FormerHolderAhead { former: 7, newer: 6, .. }),
        "token 7 of a former holder passes token 6",
    );
}

#[test]
fn a_lease_without_an_end() {
    let story = Story::default().takes(0, "a", SHARED);
    story.is_rejected(|violation| matches!(violation, Violation::NeverEnded { .. }), "a/c had from 0 on");
}

#[test]
fn a_lease_that_is_ended_only_by_the_death_of_another_process() {
    let story = Story::default().takes(0, "a", SHARED).killed(3, "b");
    story.is_rejected(|violation| matches!(violation, Violation::NeverEnded { .. }), "neither released nor lost");
}

#[test]
fn a_waiter_that_nobody_answers() {
    let story = Story::default().holds(0..10, "a", EXCLUSIVE).asks(1, "b", SHARED);
    story.is_rejected(|violation| matches!(violation, Violation::Unanswered { .. }), "never answered: b/c");
}

#[test]
fn a_lease_for_who_has_not_asked() {
    let story = Story::default().did(0, "a", Step::Grant(EXCLUSIVE));
    story.is_rejected(
        |violation| matches!(violation, Violation::OutOfPlace { .. }),
        "Grant(Exclusive) of \"s\" for a/c at 0",
    );
}

#[test]
fn a_lease_for_who_had_given_up() {
    let story = Story::default().asks(0, "a", EXCLUSIVE).did(1, "a", Step::Dropped).did(2, "a", Step::Grant(EXCLUSIVE));
    story.is_rejected(|violation| matches!(violation, Violation::OutOfPlace { .. }), "can't be at this point");
}

#[test]
fn a_lease_in_another_mode_than_was_asked_for() {
    let story = Story::default().asks(0, "a", EXCLUSIVE).did(1, "a", Step::Grant(SHARED)).did(2, "a", Step::Dropped);
    story.is_rejected(|violation| matches!(violation, Violation::OutOfPlace { .. }), "Grant(Shared)");
}

#[test]
fn a_client_that_asks_twice() {
    let story = Story::default().asks(0, "a", SHARED).asks(1, "a", SHARED).did(2, "a", Step::Refused);
    story.is_rejected(|violation| matches!(violation, Violation::OutOfPlace { .. }), "Invoke(Shared)");
    let story = Story::default().takes(0, "a", SHARED).asks(1, "a", SHARED).did(2, "a", Step::Release);
    story.is_rejected(|violation| matches!(violation, Violation::OutOfPlace { .. }), "Invoke(Shared)");
}

#[test]
fn a_loss_or_a_token_of_who_has_no_lease() {
    for step in [Step::Lost("gone".into()), Step::BeliefEnded, Step::Token { token: 1, asked: ms(0) }, Step::Release] {
        let story = Story::default().did(1, "a", step);
        story.is_rejected(|violation| matches!(violation, Violation::OutOfPlace { .. }), "for a/c at 1000000");
    }
}
