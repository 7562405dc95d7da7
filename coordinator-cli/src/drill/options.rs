use clap::{Args, value_parser};
use std::{fmt, time::Duration};

/// What a drill is asked to do.
#[derive(Args, Clone)]
pub(crate) struct Options {
    /// How many instances work at the same time.
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u16).range(1..=64))]
    pub(crate) instances: u16,

    /// How long each of the two phases lasts, in seconds.
    ///
    /// The protected phase lasts up to four times as long where it has not done 100 operations of each kind by then.
    #[arg(long, default_value_t = 5, value_parser = value_parser!(u64).range(1..=3600))]
    pub(crate) seconds: u64,

    /// How many subjects they share; the fewer, the more often operations meet.
    #[arg(long, default_value_t = 12, value_parser = value_parser!(i64).range(1..=10_000))]
    pub(crate) subjects: i64,

    /// A PostgreSQL to run on: instances are processes, the store is a schema, dropped at the end.
    #[arg(long, value_name = "postgres://…")]
    pub(crate) url: Option<String>,

    /// Kill and replace an instance about every second.
    #[arg(long, requires = "url")]
    pub(crate) kill: bool,

    /// Print one JSON object, as the last line, instead of the table.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Options {
    /// How long a phase lasts.
    pub(crate) fn length(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

impl fmt::Debug for Options {
    /// Without the URL, which may hold a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("instances", &self.instances)
            .field("seconds", &self.seconds)
            .field("subjects", &self.subjects)
            .field("kill", &self.kill)
            .field("json", &self.json)
            .finish_non_exhaustive()
    }
}
