//! `is_distributed` is what the seam can't check by itself, so it is checked here, against a second process.

use crate::process::Answer;
use crate::stage::Stage;
use crate::{PATIENCE, Reach};
use coordinator_core::{Distributed, Mode, Scope};
use std::sync::Arc;

super::cases![
    &[] => [
        what_it_says_is_what_it_does_towards_a_second_process,
        what_it_says_is_what_a_second_process_does_towards_it,
        it_is_accepted_beside_a_shared_store_if_and_only_if_it_is_distributed,
    ],
];

const MODES: [(Mode, Mode); 3] =
    [(Mode::Exclusive, Mode::Exclusive), (Mode::Exclusive, Mode::Shared), (Mode::Shared, Mode::Exclusive)];

/// Held here, asked for there.
async fn what_it_says_is_what_it_does_towards_a_second_process(stage: Stage) {
    let (here, there) = (stage.connect().await, stage.process().await);
    let is_seen = stage.promises().reach >= Reach::Host;
    for (held, asked) in MODES {
        let lease = here.acquire(&Scope::new("s").expect("valid"), held).await.expect("granted");
        let answer = there.try_acquire("s", asked).await;
        let is_right = if is_seen { answer == Answer::Refused } else { answer.is_granted() };
        assert!(is_right, "{held} here, {asked} there: {answer:?}");
        lease.release().await.expect("held to the end");
        if !is_seen {
            there.release("s").await.done();
        }
    }
}

/// Held there, asked for here.
async fn what_it_says_is_what_a_second_process_does_towards_it(stage: Stage) {
    let (here, there) = (stage.connect().await, stage.process().await);
    let is_seen = stage.promises().reach >= Reach::Host;
    for (held, asked) in MODES {
        there.acquire("s", held, PATIENCE).await.granted();
        let lease = here.try_acquire(&Scope::new("s").expect("valid"), asked).await.expect("an answer");
        assert_eq!(lease.is_none(), is_seen, "{held} there, {asked} here");
        there.release("s").await.done();
    }
}

async fn it_is_accepted_beside_a_shared_store_if_and_only_if_it_is_distributed(stage: Stage) {
    let handle = stage.connect().await;
    let says = handle.is_distributed();
    assert_eq!(says, stage.promises().reach == Reach::Network, "is_distributed() is not what the harness states");
    match Distributed::new(Arc::clone(&handle)) {
        Ok(_) => assert!(says, "accepted"),
        Err(refused) => assert!(!says, "{refused}"),
    }
}
