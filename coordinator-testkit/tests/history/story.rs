//! Histories told by hand, in milliseconds.

use coordinator_core::Mode;
use coordinator_testkit::Moment;
use coordinator_testkit::history::{Allowed, Event, History, Step, Violation, What};
use std::time::Duration;

pub(crate) const EXCLUSIVE: Mode = Mode::Exclusive;
pub(crate) const SHARED: Mode = Mode::Shared;

#[derive(Default)]
pub(crate) struct Story(pub(crate) History);

pub(crate) fn ms(millis: u64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

impl Story {
    /// The one client of `process` did this.
    pub(crate) fn did(mut self, at: u64, process: &str, step: Step) -> Self {
        let (client, scope) = ("c".into(), "s".into());
        self.0.record(Event { at: ms(at), process: process.into(), what: What::Client { client, scope, step } });
        self
    }

    pub(crate) fn asks(self, at: u64, process: &str, mode: Mode) -> Self {
        self.did(at, process, Step::Invoke(mode))
    }

    /// Asked for and got at once.
    pub(crate) fn takes(self, at: u64, process: &str, mode: Mode) -> Self {
        self.asks(at, process, mode).did(at, process, Step::Grant(mode))
    }

    pub(crate) fn holds(self, span: std::ops::Range<u64>, process: &str, mode: Mode) -> Self {
        self.takes(span.start, process, mode).did(span.end, process, Step::Release)
    }

    pub(crate) fn lost(self, at: u64, process: &str) -> Self {
        self.did(at, process, Step::Lost("gone".into()))
    }

    pub(crate) fn token(self, span: std::ops::Range<u64>, process: &str, token: u64) -> Self {
        self.did(span.end, process, Step::Token { token, asked: ms(span.start) })
    }

    pub(crate) fn killed(mut self, at: u64, process: &str) -> Self {
        self.0.record(Event { at: ms(at), process: process.into(), what: What::Killed });
        self
    }

    pub(crate) fn violations(&self) -> Vec<Violation> {
        self.0.check(&Allowed::default())
    }

    #[track_caller]
    pub(crate) fn is_accepted(&self) {
        assert_eq!(self.violations(), []);
    }

    #[track_caller]
    pub(crate) fn is_accepted_within(&self, overlap: u64) {
        assert_eq!(self.0.check(&Allowed::overlap(Duration::from_millis(overlap))), []);
    }

    /// For this one reason.
    #[track_caller]
    pub(crate) fn is_rejected(&self, is_the_reason: impl Fn(&Violation) -> bool, told: &str) {
        let violations = self.violations();
        let [violation] = violations.as_slice() else { panic!("not one violation: {violations:#?}") };
        assert!(is_the_reason(violation), "{violation:?}");
        let text = violation.to_string();
        assert!(text.contains(told), "{told:?} is not in {text:?}");
    }
}
