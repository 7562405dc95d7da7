//! `LocalCoordinator` passes the conformance suite of a backend that reaches one process.

use coordinator_local::{Error, LocalCoordinator};
use coordinator_testkit::{Env, Harness, Reach};
use std::process::ExitCode;

struct Local;

impl Harness for Local {
    type Coordinator = LocalCoordinator;

    async fn connect(&self, _: &Env) -> Result<LocalCoordinator, Error> {
        Ok(LocalCoordinator::new())
    }

    fn reach(&self) -> Reach {
        Reach::Process
    }
}

fn main() -> ExitCode {
    coordinator_testkit::main(Local)
}
