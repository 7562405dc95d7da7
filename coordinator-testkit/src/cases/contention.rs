//! Many processes and tasks that want the same scope, and more of them than there are connections.

use super::Need;
use super::rivals::{S, in_line};
use crate::history::{Recorder, Step};
use crate::process::{Answer, Command, Process, Span};
use crate::stage::Stage;
use crate::{PATIENCE, measured, within};
use coordinator_core::Mode;
use futures_util::future::join_all;

super::cases![
    &[Need::Processes] => [
        eight_processes_of_eight_tasks_are_all_served_and_never_two_at_once,
        shared_and_exclusive_tasks_of_four_processes_are_all_served,
        more_waiters_than_connections_are_all_served,
    ],
    &[Need::Processes, Need::Fifo] => [
        instances_are_served_in_the_order_in_which_they_came,
    ],
];

const ROUNDS: usize = 3;

async fn contend(stage: &Stage, processes: usize, tasks: usize, shared: usize) -> Vec<Span> {
    let started = join_all((0..processes).map(|_| stage.process())).await;
    let limit = stage.promises().longest_wait;
    let contend = || Command::Contend { scope: S.into(), tasks, shared, rounds: ROUNDS, limit };
    let answers = join_all(started.iter().map(|process| process.ask(contend()))).await;
    let of = |(process, answer): (&Process, Answer)| record(stage.recorder(), process, &answer.spans());
    let spans: Vec<_> = started.iter().zip(answers).flat_map(of).collect();
    assert_eq!(spans.len(), processes * tasks * ROUNDS, "everybody was served");
    let mut waits: Vec<_> = spans.iter().map(|span| span.from.since(span.asked)).collect();
    measured(&format!("{processes} processes of {tasks} tasks: waits"), &mut waits);
    spans
}

/// As steps of clients, for the history's check.
fn record(recorder: &Recorder, process: &Process, spans: &[Span]) -> Vec<Span> {
    for span in spans {
        let client = recorder.client_of(process.env().instance(), format!("task {}", span.task));
        let mode = if span.shared { Mode::Shared } else { Mode::Exclusive };
        client.did(span.asked, S, Step::Invoke(mode));
        client.did(span.from, S, Step::Grant(mode));
        client.did(span.fenced, S, Step::Token { token: span.token, asked: span.from });
        client.did(span.until, S, Step::Release);
    }
    spans.to_vec()
}

async fn eight_processes_of_eight_tasks_are_all_served_and_never_two_at_once(stage: Stage) {
    contend(&stage, 8, 8, 0).await;
}

async fn shared_and_exclusive_tasks_of_four_processes_are_all_served(stage: Stage) {
    let spans = contend(&stage, 4, 6, 3).await;
    assert!(spans.iter().any(|span| span.shared) && spans.iter().any(|span| !span.shared));
}

async fn more_waiters_than_connections_are_all_served(stage: Stage) {
    let (holder, waiter) = (stage.process().await, stage.process().await);
    let names: Vec<_> = (0..40).map(|i| format!("held-{i}")).collect();
    for name in &names {
        holder.acquire(name, Mode::Exclusive, PATIENCE).await.granted();
    }
    let mut waiting = Vec::new();
    for name in &names {
        waiting.push(waiter.queue(name, Mode::Exclusive).await);
    }
    for name in &names {
        holder.release(name).await.done();
    }
    for answer in within(2 * PATIENCE, "all of them", join_all(waiting)).await {
        answer.granted();
    }
}

async fn instances_are_served_in_the_order_in_which_they_came(stage: Stage) {
    let holder = stage.process().await;
    holder.acquire(S, Mode::Exclusive, PATIENCE).await.granted();
    let mut line = Vec::new();
    for place in 1..=5 {
        let process = stage.process().await;
        let waiting = in_line(&process, place).await;
        line.push((process, waiting));
    }
    holder.release(S).await.done();
    let mut last = None;
    for (process, waiting) in line {
        let granted = within(PATIENCE, "its turn", waiting).await.granted();
        assert!(last < Some(granted), "overtaken");
        last = Some(granted);
        process.release(S).await.done();
    }
}
