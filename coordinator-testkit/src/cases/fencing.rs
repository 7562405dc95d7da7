//! Tokens of holders in several processes.

use super::Need;
use super::rivals::S;
use crate::PATIENCE;
use crate::stage::Stage;
use coordinator_core::{FencingGate, FencingToken, Mode};

super::cases![
    &[Need::Processes] => [
        tokens_grow_from_process_to_process_and_across_crashes,
        shared_holders_of_several_processes_pass_the_gate_and_an_earlier_exclusive_one_does_not,
    ],
];

async fn tokens_grow_from_process_to_process_and_across_crashes(stage: Stage) {
    let mut last = 0;
    for round in 0..6 {
        let process = stage.process().await;
        process.acquire(S, Mode::Exclusive, stage.promises().crash_release + PATIENCE).await.granted();
        for _ in 0..3 {
            let token = process.fence(S).await.token();
            assert!(token > last, "{token} after {last}, in round {round}");
            last = token;
        }
        if round % 2 == 0 {
            process.kill();
        } else {
            process.release(S).await.done();
        }
    }
}

async fn shared_holders_of_several_processes_pass_the_gate_and_an_earlier_exclusive_one_does_not(stage: Stage) {
    let (one, two) = (stage.process().await, stage.process().await);
    let mut gate = FencingGate::default();
    one.acquire(S, Mode::Exclusive, PATIENCE).await.granted();
    let stale = FencingToken::new(one.fence(S).await.token());
    one.release(S).await.done();
    let mut tokens = Vec::new();
    for process in [&one, &two] {
        process.acquire(S, Mode::Shared, PATIENCE).await.granted();
        tokens.push(FencingToken::new(process.fence(S).await.token()));
    }
    // In whatever order the two write.
    for token in tokens.into_iter().rev() {
        assert!(token > stale && gate.admit(Mode::Shared, token), "{token}");
    }
    assert!(!gate.admit(Mode::Exclusive, stale), "a write of who held it before");
}
