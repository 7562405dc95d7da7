//! What the outside sees: every event, and no name. One test: the recorder and the subscriber are the process's.

mod scripted;

use coordinator_core::Mode::{Exclusive, Shared};
use coordinator_core::{DigestKey, ErasureCoordinator, LossReason, Scope};
use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use scripted::caller::Caller;
use scripted::rig::{FOREVER, Rig, granted, options, scope};
use std::collections::HashMap;
use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, LazyLock, Mutex};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber, span};

static NUMBERS: LazyLock<Mutex<HashMap<String, Arc<AtomicU64>>>> = LazyLock::new(Mutex::default);
static LINES: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());

struct Numbers;

fn number(key: &Key) -> Arc<AtomicU64> {
    let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
    let name = format!("{} {}", key.name(), labels.join(" "));
    Arc::clone(NUMBERS.lock().expect("not poisoned").entry(name.trim().to_owned()).or_default())
}

impl Recorder for Numbers {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(number(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(number(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(Arc::new(Samples(number(key))))
    }
}

/// Counts what is recorded.
struct Samples(Arc<AtomicU64>);

impl metrics::HistogramFn for Samples {
    fn record(&self, _: f64) {
        self.0.fetch_add(1, SeqCst);
    }
}

struct Lines;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {field}={value:?}");
    }
}

impl Subscriber for Lines {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
        let mut line = Line(span.metadata().name().to_owned());
        span.record(&mut line);
        LINES.lock().expect("not poisoned").push((*span.metadata().level(), line.0));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        LINES.lock().expect("not poisoned").push((*event.metadata().level(), line.0));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

fn value(name: &str) -> u64 {
    NUMBERS.lock().expect("not poisoned").get(name).map_or(0, |number| number.load(SeqCst))
}

#[expect(clippy::float_cmp, reason = "a gauge of whole numbers")]
fn assert_waiters(expected: f64) {
    assert_eq!(f64::from_bits(value("coordinator_waiters")), expected);
}

fn warnings(of: &str) -> usize {
    let lines = LINES.lock().expect("not poisoned");
    lines.iter().filter(|(level, line)| *level == Level::WARN && line.contains(of)).count()
}

#[test]
fn every_event_is_counted_and_told_and_no_name_leaves() {
    metrics::set_global_recorder(Numbers).expect("the first one");
    tracing::subscriber::set_global_default(Lines).expect("the first one");
    grants_and_waiters_are_counted();
    every_loss_is_a_warning();
    a_revocation_is_one_loss_also_when_the_session_is_lost_after_it();
    a_failed_release_is_a_warning();
    no_name_leaves();
}

fn grants_and_waiters_are_counted() {
    let rig = Rig::new();
    let first = rig.holds(Exclusive);
    let (mut second, third) = (rig.waits(Exclusive), rig.waits(Shared));
    assert_waiters(2.0);
    drop(third);
    assert_waiters(1.0);
    drop(first);
    drop(rig.granted(&mut second));
    assert_waiters(0.0);
    rig.assert_over();
    assert_eq!(value("coordinator_grants_total mode=exclusive"), 2);
    assert_eq!(value("coordinator_wait_seconds mode=exclusive"), 2);
    assert_eq!(value("coordinator_hold_seconds mode=exclusive"), 2);
    assert_eq!(value("coordinator_grants_total mode=shared"), 0);
}

fn every_loss_is_a_warning() {
    // Whoever learns of it first: the upkeep, or the holder that leaves.
    for holder_is_first in [false, true] {
        let (before, told) = (value("coordinator_losses_total"), warnings("lost"));
        let rig = Rig::new();
        let lease = rig.holds(Shared);
        let other = rig.joins(Shared);
        rig.script.script().sessions[0].lose(LossReason::Disconnected);
        if holder_is_first {
            drop(lease);
            drop(other);
        }
        rig.settle();
        assert_eq!(value("coordinator_losses_total"), before + 2, "the holder is first: {holder_is_first}");
        assert_eq!(warnings("lost"), told + 1);
    }
}

fn a_revocation_is_one_loss_also_when_the_session_is_lost_after_it() {
    let (before, told) = (value("coordinator_losses_total"), warnings("lost"));
    let rig = Rig::new();
    let leases = (rig.holds(Shared), rig.joins(Shared));
    rig.revoke(scope("s"));
    rig.revoke(scope("s"));
    assert_eq!(value("coordinator_losses_total"), before + 2);
    rig.script.script().sessions[0].lose(LossReason::Disconnected);
    rig.settle();
    drop(leases);
    rig.assert_over();
    assert_eq!(value("coordinator_losses_total"), before + 2);
    assert_eq!(warnings("lost"), told + 1);
}

fn a_failed_release_is_a_warning() {
    let rig = Rig::new();
    drop(rig.holds(Exclusive));
    rig.take("unlock").refuse();
    rig.settle();
    assert_eq!(value("coordinator_failed_releases_total"), 1);
    assert_eq!(warnings("not freed"), 1);
    rig.assert_over();
}

fn no_name_leaves() {
    let name = "patient-4711";
    let scope = Scope::new(name).expect("valid");
    let mut options = options(FOREVER, FOREVER);
    options.digest_key = Some(DigestKey::new(b"a secret of the deployment").expect("long enough"));
    let rig = Rig::with(options).automatic();
    let mut asking = rig.asking(scope, Exclusive, false);
    assert!(asking.is_pending());
    rig.settle();
    let lease = granted(asking.ready());
    let told = format!("{lease:?} {:?} {:?}", rig.coordinator.0, rig.script.live());
    // The backend is asked for the keyed digest; the lease has the caller's scope.
    assert_eq!(*lease.scope(), scope);
    assert_ne!(rig.script.live()[0].1, scope);
    let coordinator = Arc::clone(&rig.coordinator);
    let mut inspection = Caller::new(async move { coordinator.inspect(&scope).await });
    let _ = inspection.poll();
    rig.settle();
    assert_eq!(inspection.ready().expect("no error").holders.len(), 1);
    rig.script.script().automatic = false;
    let mut fence = Caller::new(async move { lease.fence().await });
    assert!(fence.is_pending());
    rig.take("fence").fail_unavailable();
    let error = rig.told(&mut fence).expect_err("it failed");
    drop(fence);
    rig.assert_over();

    let lines = LINES.lock().expect("not poisoned");
    let numbers: Vec<_> = NUMBERS.lock().expect("not poisoned").keys().cloned().collect();
    let all = format!("{told} {error} {error:?} {lines:?} {numbers:?}");
    assert!(!all.contains(name) && !all.contains("4711"));
    // Nor does the digest that could be guessed from the name, where a key is given.
    let lines = format!("{lines:?} {numbers:?}");
    assert!(!lines.contains(&scope.to_string()));
}
