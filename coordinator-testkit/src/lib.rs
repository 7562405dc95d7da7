//! A conformance suite for per-scope lock coordinators, run against any backend: a stranger's too.
//!
//! Write a [`Harness`] and a test target with `harness = false`:
//!
//! ```no_run
//! # use coordinator_core::{ErasureCoordinator, Error, Hold, Inspection, Lease, Mode, Scope};
//! # #[derive(Debug)] struct MyCoordinator;
//! # impl MyCoordinator { async fn connect(_: &str, _: &str) -> Result<Self, Error> { Ok(Self) } }
//! # #[async_trait::async_trait] impl ErasureCoordinator for MyCoordinator {
//! #     fn is_distributed(&self) -> bool { true }
//! #     async fn acquire(&self, _: &Scope, _: Mode) -> Result<Lease, Error> { todo!() }
//! #     async fn try_acquire(&self, _: &Scope, _: Mode) -> Result<Option<Lease>, Error> { todo!() }
//! #     async fn inspect(&self, _: &Scope) -> Result<Inspection, Error> { todo!() }
//! # }
//! use coordinator_testkit::{Env, Harness};
//! use std::{process::ExitCode, time::Duration};
//!
//! struct Mine;
//! impl Harness for Mine {
//!     type Coordinator = MyCoordinator;
//!     const SERVER_ENV: &'static [&'static str] = &["MY_TEST_URL"];
//!     async fn connect(&self, env: &Env) -> Result<MyCoordinator, Error> {
//!         MyCoordinator::connect(env.var("MY_TEST_URL"), env.namespace()).await
//!     }
//!     fn crash_release(&self) -> Duration {
//!         Duration::from_secs(5)
//!     }
//! }
//! fn main() -> ExitCode {
//!     coordinator_testkit::main(Mine)
//! }
//! ```
//!
//! The kit owns `main`, so that the program can start itself anew as other processes, which are then killed, frozen and
//! cut off. Cases have names and filters and run under `cargo test` and cargo-nextest alike.

mod ask;
mod cases;
mod env;
pub mod faults;
mod harness;
pub mod history;
mod moment;
mod process;
mod stage;
mod suite;
mod wait;

pub use ask::{fresh_scope, is_free, somebody_waits, soon};
pub use env::{Env, unique};
pub use faults::Framing;
pub use harness::{Harness, Reach, Server};
pub use moment::Moment;
pub use suite::{Suite, main};
pub use wait::{PATIENCE, measured, until, within};

/// A coordinator as the cases hold it.
pub type Handle = std::sync::Arc<dyn coordinator_core::ErasureCoordinator>;
