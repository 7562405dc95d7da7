//! The `coordinator` command: `coordinator drill` shows what a lock per scope saves an erasure from.

mod command;
mod drill;

use clap::Parser as _;
use command::Command;
use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    match Command::parse() {
        Command::Drill(options) => drill::run(&options).await,
        Command::DrillInstance => drill::run_instance().await,
    }
}
