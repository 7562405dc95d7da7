use serde_json::Value;
use std::process::{Command, Output, Stdio};

/// A run of `coordinator drill` that has ended.
#[derive(Debug)]
pub(crate) struct Drill {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Drill {
    /// The command, ready to be run.
    pub(crate) fn command(arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coordinator"));
        command.arg("drill").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(arguments: &[&str]) -> Self {
        Self::new(Self::command(arguments).output().expect("the binary runs"))
    }

    /// What a process that has ended left.
    pub(crate) fn new(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Self { status: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// The object on the last line.
    pub(crate) fn report(&self) -> Value {
        let last = self.stdout.lines().last().unwrap_or_else(|| panic!("no line: {self:?}"));
        serde_json::from_str(last).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }

    /// A number of the report.
    pub(crate) fn number(&self, phase: &str, name: &str) -> u64 {
        self.report()[phase][name].as_u64().unwrap_or_else(|| panic!("no {phase}.{name}: {self:?}"))
    }

    /// What every drill has to show.
    pub(crate) fn assert_passed(&self) {
        assert_eq!(self.number("protected", "violations"), 0, "{self:?}");
        assert!(self.number("unprotected", "violations") > 0, "{self:?}");
        for kind in ["writes", "holds", "erasures"] {
            assert!(self.number("protected", kind) >= 100, "{kind}: {self:?}");
        }
        let done: u64 = ["writes", "holds", "lifts", "erasures", "resumed_erasures"]
            .iter()
            .map(|kind| self.number("protected", kind))
            .sum();
        assert_eq!(self.number("protected", "operations"), done);
        assert_eq!(self.status, Some(0), "{self:?}");
    }
}
