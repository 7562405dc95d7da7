use super::{event::Operation, ledger::REAL_WORK, options::Options, phase::Phase};
use serde::Serialize;
use std::{collections::BTreeMap, fmt::Write as _};

/// What a drill found, as it is printed with `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    backend: &'static str,
    instances: u16,
    seconds: u64,
    subjects: i64,
    kill: bool,
    unprotected: PhaseReport,
    protected: PhaseReport,
    passed: bool,
    #[serde(skip)]
    too_few: Option<Operation>,
}

#[derive(Debug, Serialize)]
struct PhaseReport {
    violations: u64,
    lost_items: u64,
    broken_holds: u64,
    operations: u64,
    writes: u64,
    holds: u64,
    lifts: u64,
    erasures: u64,
    resumed_erasures: u64,
    refused: u64,
    failed: u64,
    instances_killed: u64,
    seconds: f64,
    operations_per_second: f64,
    wait_p50_micros: u64,
    wait_p99_micros: u64,
    /// Refusals as `operation: reason`.
    refusals: BTreeMap<String, u64>,
    /// The messages of failed operations.
    failures: BTreeMap<String, u64>,
}

impl PhaseReport {
    fn new(phase: &Phase) -> Self {
        let (ledger, seconds) = (&phase.ledger, phase.lasted.as_secs_f64());
        let named = |((operation, why), count): (&(Operation, _), &u64)| (format!("{operation}: {why:?}"), *count);
        Self {
            violations: phase.violations.total(),
            lost_items: phase.violations.lost_items,
            broken_holds: phase.violations.broken_holds,
            operations: ledger.operations(),
            writes: ledger.done(Operation::Write),
            holds: ledger.done(Operation::Hold),
            lifts: ledger.done(Operation::Lift),
            erasures: ledger.done(Operation::Erase),
            resumed_erasures: ledger.done(Operation::Resume),
            refused: ledger.refused.values().sum(),
            failed: ledger.failed.values().sum(),
            instances_killed: phase.killed,
            seconds,
            operations_per_second: per_second(ledger.operations(), seconds),
            wait_p50_micros: ledger.waited_micros(50),
            wait_p99_micros: ledger.waited_micros(99),
            refusals: ledger.refused.iter().map(named).collect(),
            failures: ledger.failed.clone(),
        }
    }
}

impl Report {
    /// What the two phases amount to.
    pub(crate) fn new(options: &Options, unprotected: &Phase, protected: &Phase) -> Self {
        let too_few = protected.ledger.too_few();
        let (unprotected, protected) = (PhaseReport::new(unprotected), PhaseReport::new(protected));
        let passed = protected.violations == 0 && too_few.is_none();
        Self {
            backend: if options.url.is_some() { "postgres" } else { "memory" },
            instances: options.instances,
            seconds: options.seconds,
            subjects: options.subjects,
            kill: options.kill,
            unprotected,
            protected,
            passed,
            too_few,
        }
    }

    /// Whether the protected phase had no violation and did real work.
    pub(crate) fn passed(&self) -> bool {
        self.passed
    }

    /// One line of JSON.
    pub(crate) fn json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// The summary for people, with a verdict as its last line.
    pub(crate) fn table(&self) -> String {
        let mut table = format!(
            "{} instances, {} subjects, {} s a phase, {}\n\n{:<34}{:>14}{:>14}\n",
            self.instances,
            self.subjects,
            self.seconds,
            match self.backend {
                "postgres" => "processes on PostgreSQL",
                _ => "tasks on a store in memory",
            },
            "",
            "unprotected",
            "protected",
        );
        let mut row = |name: &str, value: &dyn Fn(&PhaseReport) -> String| {
            // Writing to a string does not fail.
            let _ = writeln!(table, "{name:<34}{:>14}{:>14}", value(&self.unprotected), value(&self.protected));
        };
        let rate = |count: u64, phase: &PhaseReport| format!("{:.0}", per_second(count, phase.seconds));
        row("writes per second", &|phase| rate(phase.writes, phase));
        row("holds placed per second", &|phase| rate(phase.holds, phase));
        row("holds lifted per second", &|phase| rate(phase.lifts, phase));
        row("erasures per second", &|phase| rate(phase.erasures, phase));
        row("operations", &|phase| phase.operations.to_string());
        row("refused", &|phase| phase.refused.to_string());
        row("failed", &|phase| phase.failed.to_string());
        if self.kill {
            row("instances killed", &|phase| phase.instances_killed.to_string());
        }
        row("erasures resumed", &|phase| phase.resumed_erasures.to_string());
        row("wait for the scope, p50", &|phase| milliseconds(phase.wait_p50_micros));
        row("wait for the scope, p99", &|phase| milliseconds(phase.wait_p99_micros));
        row("VIOLATIONS: items lost unseen", &|phase| phase.lost_items.to_string());
        row("VIOLATIONS: holds broken", &|phase| phase.broken_holds.to_string());
        table.push('\n');
        table.push_str(&self.verdict());
        table
    }

    /// What is to be said beside the figures.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.unprotected.violations == 0 {
            warnings.push(
                "the unprotected phase shows no violation, so this run proves little: try more seconds or instances, \
                 or fewer subjects"
                    .into(),
            );
        }
        for (phase, report) in [("unprotected", &self.unprotected), ("protected", &self.protected)] {
            if let Some((message, count)) = report.failures.iter().max_by_key(|(_, count)| **count) {
                let failed = report.failed;
                warnings.push(format!("{failed} operations of the {phase} phase failed, {count} of them: {message}"));
            }
        }
        warnings
    }

    fn verdict(&self) -> String {
        match (self.protected.violations, self.too_few) {
            (0, None) => "passed: no violation under the shared lock".into(),
            (0, Some(kind)) => {
                format!(
                    "failed: fewer than {REAL_WORK} operations of the kind {kind} under the shared lock prove nothing"
                )
            }
            (violations, _) => format!("failed: {violations} violations under the shared lock"),
        }
    }
}

fn milliseconds(micros: u64) -> String {
    format!("{}.{} ms", micros / 1000, micros % 1000 / 100)
}

/// Counts of a drill are far below the 2^52 that a float holds exactly.
#[expect(clippy::cast_precision_loss)]
fn per_second(count: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { count as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drill::{
        audit::Violations,
        event::{Event, Told},
        key_service::KeyName,
        ledger::Ledger,
    };
    use std::time::Duration;

    fn phase(erasures: i64, violations: Violations) -> Phase {
        let mut ledger = Ledger::default();
        for number in 0..100 {
            let key = KeyName { subject: 0, generation: number };
            for event in [Event::Wrote { item: number, key }, Event::Held { hold: number, item: number, key }] {
                ledger.enter(Told { event, waited_micros: Some(1500) });
            }
        }
        for generation in 0..erasures {
            let event = Event::Erased { key: KeyName { subject: 0, generation } };
            ledger.enter(Told { event, waited_micros: None });
        }
        Phase { ledger, violations, lasted: Duration::from_secs(2), killed: 0 }
    }

    fn report(unprotected: &Phase, protected: &Phase) -> Report {
        let options = Options { instances: 4, seconds: 2, subjects: 8, url: None, kill: false, json: false };
        Report::new(&options, unprotected, protected)
    }

    const NONE: Violations = Violations { lost_items: 0, broken_holds: 0 };
    const SOME: Violations = Violations { lost_items: 3, broken_holds: 1 };

    #[test]
    fn real_work_without_a_violation_passes() {
        let report = report(&phase(100, SOME), &phase(100, NONE));
        assert!(report.passed());
        assert!(report.table().ends_with("\npassed: no violation under the shared lock"), "{}", report.table());
        assert_eq!(report.warnings(), [""; 0]);
        let json: serde_json::Value = serde_json::from_str(&report.json().expect("JSON")).expect("JSON");
        assert_eq!(json["unprotected"]["violations"], 4);
        assert_eq!(json["protected"]["operations"], 300);
        assert_eq!(json["protected"]["wait_p50_micros"], 1500);
    }

    #[test]
    fn a_violation_under_the_shared_lock_fails() {
        let report = report(&phase(100, SOME), &phase(100, SOME));
        assert!(!report.passed());
        assert!(report.table().ends_with("\nfailed: 4 violations under the shared lock"), "{}", report.table());
    }

    #[test]
    fn too_little_work_fails_and_an_unprotected_phase_without_violations_is_warned_about() {
        let report = report(&phase(100, NONE), &phase(99, NONE));
        assert!(!report.passed());
        assert!(report.table().contains("failed: fewer than 100 operations of the kind erase"), "{}", report.table());
        assert!(report.warnings()[0].contains("shows no violation"));
    }
}
