//! `FileCoordinator` passes the conformance suite of a backend that reaches the processes of one host.

use coordinator_testkit::{Env, Harness, Reach};
use std::process::ExitCode;
use std::time::Duration;

#[cfg(target_os = "linux")]
use coordinator_local::{Error, FileCoordinator};

#[cfg(target_os = "linux")]
struct File;

#[cfg(target_os = "linux")]
impl Harness for File {
    type Coordinator = FileCoordinator;

    async fn connect(&self, env: &Env) -> Result<FileCoordinator, Error> {
        FileCoordinator::open(env.directory())
    }

    fn reach(&self) -> Reach {
        Reach::Host
    }

    fn crash_release(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// A second after which a waiter that takes no free scope counts as frozen, and a few looks.
    fn waiter_release(&self) -> Duration {
        Duration::from_secs(2)
    }
}

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    coordinator_testkit::main(File)
}

#[cfg(not(target_os = "linux"))]
fn main() {}
