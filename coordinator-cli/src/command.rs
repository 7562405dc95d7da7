use crate::drill::Options;
use clap::Parser;

/// A lock per scope that makes erasure by destroying keys safe.
#[derive(Parser, Debug)]
#[command(name = "coordinator", version)]
pub(crate) enum Command {
    /// Runs writes, holds and erasures on several instances, without a shared lock and then under one.
    ///
    /// Exit status: 0 when the protected phase has no violation and did real work, 1 when not, 2 when the drill
    /// could not be run.
    Drill(Options),
    /// One instance of a drill, as a process of its own; started by the drill alone.
    #[command(hide = true)]
    DrillInstance,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Command::command().debug_assert();
    }
}
