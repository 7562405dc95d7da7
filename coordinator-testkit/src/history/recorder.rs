use super::{Allowed, Event, Held, History, Step, Violation, What, html};
use crate::{Handle, Moment, unique};
use coordinator_core::{ErasureCoordinatorExt, Error, Lease, Mode, Scope};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use std::{fs, io};

/// What the clients in this process are called by.
const HERE: &str = "here";

/// Fills a [`History`] while a case runs; a failed one is written down, also when the case fails elsewhere.
#[derive(Debug)]
pub struct Recorder {
    case: String,
    history: Arc<Mutex<History>>,
    written: OnceLock<PathBuf>,
}

impl Recorder {
    /// For the case of that name.
    pub fn new(case: impl Into<String>) -> Self {
        Self { case: case.into(), history: Arc::default(), written: OnceLock::new() }
    }

    /// The voice of a client of this process. It outlives the recorder if it has to.
    pub fn client(&self, client: impl Into<String>) -> Client {
        self.client_of(HERE, client)
    }

    /// The voice of a client of another process, where this one speaks for it.
    pub fn client_of(&self, process: impl Into<String>, client: impl Into<String>) -> Client {
        Client { history: Arc::clone(&self.history), process: process.into(), name: client.into() }
    }

    /// The process is killed after this.
    pub fn killed(&self, process: impl Into<String>) {
        self.record(Event { at: Moment::now(), process: process.into(), what: What::Killed });
    }

    /// Something for the reader, now: "frozen", "link cut".
    pub fn note(&self, process: impl Into<String>, text: impl Into<String>) {
        self.record(Event { at: Moment::now(), process: process.into(), what: What::Note(text.into()) });
    }

    /// Adds an event that somebody else saw.
    pub fn record(&self, event: Event) {
        lock(&self.history).record(event);
    }

    /// Adds what another process has recorded.
    pub fn merge(&self, history: History) {
        lock(&self.history).merge(history);
    }

    /// What was recorded until now.
    pub fn history(&self) -> History {
        lock(&self.history).clone()
    }

    /// Holds only if the history is without a violation.
    ///
    /// # Panics
    /// When it is not; the message names the violations, and the directory that it was written to.
    #[track_caller]
    pub fn check(&self, allowed: &Allowed) {
        let violations = self.history().check(allowed);
        if violations.is_empty() {
            return;
        }
        let mut message = format!("{} of the history's events are wrong:\n", violations.len());
        for violation in violations.iter().take(10) {
            let _ = writeln!(message, "- {violation}"); // to a string
        }
        panic!("{message}{}", self.write(&violations));
    }

    /// Writes it down, once; says where.
    fn write(&self, violations: &[Violation]) -> String {
        let directory = self.written.get_or_init(|| std::env::temp_dir().join(unique("history")));
        match write(&self.history(), &self.case, violations, directory) {
            Ok(()) => format!("the history of {}: {}", self.case, directory.display()),
            Err(error) => format!("the history of {} can't be written to {}: {error}", self.case, directory.display()),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        if std::thread::panicking() && self.written.get().is_none() {
            eprintln!("{}", self.write(&[]));
        }
    }
}

/// Writes a history into `directory`, which is made: `history.jsonl`, and `timeline.html` for a browser.
///
/// # Errors
/// When it can't be written.
pub fn write(history: &History, title: &str, violations: &[Violation], directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    fs::write(directory.join("history.jsonl"), history.to_json_lines())?;
    fs::write(directory.join("timeline.html"), html(history, title, violations))
}

/// Records what one client does, as it does it.
#[derive(Clone, Debug)]
pub struct Client {
    history: Arc<Mutex<History>>,
    process: String,
    name: String,
}

impl Client {
    /// It does this now.
    pub fn does(&self, scope: &str, step: Step) {
        self.did(Moment::now(), scope, step);
    }

    /// It did this then.
    pub fn did(&self, at: Moment, scope: &str, step: Step) {
        let what = What::Client { client: self.name.clone(), scope: scope.to_owned(), step };
        lock(&self.history).record(Event { at, process: self.process.clone(), what });
    }

    /// Waits for the lease, for `limit` at most.
    ///
    /// # Errors
    /// As of the coordinator.
    ///
    /// # Panics
    /// If the scope's name is not valid.
    ///
    /// # Cancel safety
    /// May be dropped at any time; that is recorded.
    pub async fn acquire(&self, on: &Handle, scope: &str, mode: Mode, limit: Duration) -> Result<Option<Held>, Error> {
        let named = named(scope);
        self.asks(scope, mode, on.acquire_within(&named, mode, limit)).await
    }

    /// Takes the lease if it is to be had now.
    ///
    /// # Errors
    /// As of the coordinator.
    ///
    /// # Panics
    /// If the scope's name is not valid.
    ///
    /// # Cancel safety
    /// May be dropped at any time; that is recorded.
    pub async fn try_acquire(&self, on: &Handle, scope: &str, mode: Mode) -> Result<Option<Held>, Error> {
        let named = named(scope);
        self.asks(scope, mode, on.try_acquire(&named, mode)).await
    }

    async fn asks(
        &self,
        scope: &str,
        mode: Mode,
        ask: impl Future<Output = Result<Option<Lease>, Error>>,
    ) -> Result<Option<Held>, Error> {
        let mut asking = Asking { client: self, scope, is_answered: false };
        self.does(scope, Step::Invoke(mode));
        let answer = ask.await;
        self.does(
            scope,
            match &answer {
                Ok(Some(_)) => Step::Grant(mode),
                Ok(None) => Step::Refused,
                Err(error) => Step::Failed(error.to_string()),
            },
        );
        asking.is_answered = true;
        Ok(answer?.map(|lease| Held::new(lease, self.clone(), scope)))
    }
}

/// A request that may be dropped before its answer.
struct Asking<'c> {
    client: &'c Client,
    scope: &'c str,
    is_answered: bool,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.client.does(self.scope, Step::Dropped);
        }
    }
}

fn named(scope: &str) -> Scope {
    Scope::new(scope).expect("the cases use valid names")
}

fn lock(history: &Mutex<History>) -> MutexGuard<'_, History> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}
