//! The drill: one data plane, first under locks that don't know each other, then under one that does.

mod audit;
mod cipher;
mod erasure;
mod event;
mod failure;
mod instance;
mod interrupt;
mod key_client;
mod key_server;
mod key_service;
mod ledger;
mod memory_phase;
mod memory_store;
mod options;
mod phase;
mod plane;
mod postgres_schema;
mod postgres_store;
mod process_fleet;
mod process_phase;
mod report;
mod store;
mod vault;
mod worker;

use failure::Failure;
use indicatif::{ProgressBar, ProgressStyle};
pub(crate) use options::Options;
use phase::{Lock, Phase};
use report::Report;
use std::{
    io::{self, Write as _},
    process::ExitCode,
};
use tokio_util::sync::CancellationToken;

/// Runs both phases and tells what came of them.
pub(crate) async fn run(options: &Options) -> ExitCode {
    match drill(options).await {
        Ok(report) => match tell(options, &report) {
            Ok(()) if report.passed() => ExitCode::SUCCESS,
            Ok(()) => ExitCode::FAILURE,
            Err(failure) => could_not(&failure),
        },
        Err(failure) => could_not(&failure),
    }
}

/// Runs one instance of a drill, as the drill orders on standard input.
pub(crate) async fn run_instance() -> ExitCode {
    match instance::run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => could_not(&failure),
    }
}

async fn drill(options: &Options) -> Result<Report, Failure> {
    // Without a server there is nothing to clean up: an interrupt ends the process as usual.
    let interrupt = if options.url.is_some() { interrupt::listen()? } else { CancellationToken::new() };
    let unprotected = phase(options, Lock::Unprotected, &interrupt).await?;
    let protected = phase(options, Lock::Protected, &interrupt).await?;
    Ok(Report::new(options, &unprotected, &protected))
}

async fn phase(options: &Options, lock: Lock, interrupt: &CancellationToken) -> Result<Phase, Failure> {
    let progress = progress(options, lock);
    let phase = match &options.url {
        None => memory_phase::run(options, lock, &progress).await,
        Some(url) => process_phase::run(options, url, lock, &progress, interrupt).await,
    };
    progress.finish_and_clear();
    phase
}

/// A bar on standard error; hidden where that is no terminal, and with `--json`.
fn progress(options: &Options, lock: Lock) -> ProgressBar {
    if options.json {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(options.seconds.saturating_mul(1000));
    if let Ok(style) = ProgressStyle::with_template("{prefix:<12} {bar:40} {msg}") {
        bar.set_style(style);
    }
    bar.with_prefix(lock.to_string())
}

fn tell(options: &Options, report: &Report) -> Result<(), Failure> {
    let unwritten = |error: io::Error| Failure::Unexpected(format!("the report could not be written: {error}"));
    for warning in report.warnings() {
        writeln!(io::stderr(), "warning: {warning}").map_err(unwritten)?;
    }
    let text = if options.json { report.json().map_err(io::Error::from) } else { Ok(report.table()) };
    text.and_then(|text| writeln!(io::stdout(), "{text}")).map_err(unwritten)
}

fn could_not(failure: &Failure) -> ExitCode {
    // Where standard error is closed there is nobody to tell; the status says it too.
    let _ = writeln!(io::stderr(), "error: {}", failure.with_causes());
    ExitCode::from(2)
}
