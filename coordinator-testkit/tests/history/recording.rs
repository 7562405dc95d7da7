use crate::story::{EXCLUSIVE, SHARED, Story};
use coordinator_local::LocalCoordinator;
use coordinator_testkit::Handle;
use coordinator_testkit::history::{Allowed, Event, History, Recorder, Step, Violation, What};
use std::sync::Arc;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(10);

fn steps(history: &History) -> Vec<Step> {
    let step = |event: &Event| match &event.what {
        What::Client { step, .. } => Some(step.clone()),
        _ => None,
    };
    history.events().into_iter().filter_map(step).collect()
}

#[tokio::test]
async fn a_client_records_what_it_does_as_it_does_it() {
    let (recorder, on): (_, Handle) = (Recorder::new("case"), Arc::new(LocalCoordinator::new()));
    let (one, two) = (recorder.client("one"), recorder.client("two"));
    let held = one.acquire(&on, "s", EXCLUSIVE, LONG).await.expect("no failure").expect("free");
    let token = held.fence().await.expect("a token");
    assert!(two.try_acquire(&on, "s", SHARED).await.expect("an answer").is_none());
    assert!(held.is_live());
    held.release().await.expect("held to the end");
    drop(two.try_acquire(&on, "s", SHARED).await.expect("an answer").expect("free"));
    let steps = steps(&recorder.history());
    assert!(matches!(&steps[2], Step::Token { token: told, .. } if *told == token.get()), "{steps:?}");
    let rest: Vec<_> = steps.into_iter().filter(|step| !matches!(step, Step::Token { .. })).collect();
    let first = [Step::Invoke(EXCLUSIVE), Step::Grant(EXCLUSIVE), Step::Invoke(SHARED), Step::Refused, Step::Release];
    assert_eq!(rest[..5], first);
    assert_eq!(rest[5..], [Step::Invoke(SHARED), Step::Grant(SHARED), Step::Dropped]);
    recorder.check(&Allowed::default());
}

#[tokio::test]
async fn a_request_that_is_dropped_is_recorded() {
    let (recorder, on): (_, Handle) = (Recorder::new("case"), Arc::new(LocalCoordinator::new()));
    let (one, two) = (recorder.client("one"), recorder.client("two"));
    let _held = one.try_acquire(&on, "s", EXCLUSIVE).await.expect("an answer").expect("free");
    let waits = two.acquire(&on, "s", EXCLUSIVE, LONG);
    assert!(tokio::time::timeout(Duration::from_millis(10), waits).await.is_err());
    assert_eq!(steps(&recorder.history()).last(), Some(&Step::Dropped));
}

#[tokio::test]
async fn the_end_of_belief_and_the_loss_are_recorded_once() {
    let (recorder, on): (_, Handle) = (Recorder::new("case"), Arc::new(LocalCoordinator::new()));
    let held = recorder.client("one").try_acquire(&on, "s", EXCLUSIVE).await.expect("an answer").expect("free");
    assert!(held.is_live());
    on.shutdown(Duration::ZERO).await.expect("shut down");
    held.lost().await;
    assert!(!held.is_live());
    assert!(!held.is_live());
    assert!(held.release().await.expect_err("lost").is_lost());
    let beliefs = recorder.history().beliefs();
    let ended = steps(&recorder.history()).iter().filter(|step| **step == Step::BeliefEnded).count();
    assert_eq!((beliefs.len(), ended), (1, 1));
    recorder.check(&Allowed::default());
}

#[test]
fn json_lines_are_read_as_they_were_written() {
    let mut story = Story::default().asks(0, "a", EXCLUSIVE).did(1, "a", Step::Failed("\"no\"\n</script>".into()));
    story = story.holds(2..8, "a", SHARED).token(3..4, "a", u64::MAX).did(9, "a", Step::BeliefEnded).killed(10, "a");
    let what = What::Note("frozen".into());
    story.0.record(Event { at: crate::story::ms(11), process: "a".into(), what });
    let lines = story.0.to_json_lines();
    assert_eq!(lines.lines().count(), story.0.events().len());
    let read = History::from_json_lines(&lines).expect("as it was written");
    assert_eq!(read.events(), story.0.events());
    assert!(History::from_json_lines("\n{\"at\":1}\n").is_err());
}

#[test]
fn a_failed_check_names_the_culprits_and_where_the_history_is() {
    let recorder = Recorder::new("a case");
    recorder.merge(Story::default().holds(0..10, "a", EXCLUSIVE).holds(5..15, "b", EXCLUSIVE).0);
    let check = std::panic::AssertUnwindSafe(|| recorder.check(&Allowed::default()));
    let failed = std::panic::catch_unwind(check).expect_err("a violation");
    let message = failed.downcast::<String>().expect("a message");
    assert!(message.contains("a/c") && message.contains("b/c") && message.contains("both believed"), "{message}");
    let directory = message.rsplit(": ").next().expect("where it is").trim();
    let lines = std::fs::read_to_string(format!("{directory}/history.jsonl")).expect("written");
    let read = History::from_json_lines(&lines).expect("as it was written");
    assert!(matches!(read.check(&Allowed::default())[..], [Violation::Overlap { .. }]));
    let page = std::fs::read_to_string(format!("{directory}/timeline.html")).expect("written");
    assert!(page.contains("both believed"));
    std::fs::remove_dir_all(directory).expect("its own");
}
