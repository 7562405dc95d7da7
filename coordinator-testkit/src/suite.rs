use crate::cases::{Case, all};
use crate::stage::{Backend, Stage, erased};
use crate::{Env, Harness, process};
use libtest_mimic::{Arguments, Failed, Trial};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

/// Runs the suite as the program's arguments say; the whole `main` of a test target.
///
/// # Panics
/// If threads can't be had.
pub fn main(harness: impl Harness) -> ExitCode {
    Suite::new(harness).main()
}

/// The suite, where a target has more to say than its harness.
#[derive(Debug)]
pub struct Suite {
    backend: Arc<dyn Backend>,
    vars: BTreeMap<String, String>,
}

impl Suite {
    /// The suite over what `harness` connects.
    pub fn new(harness: impl Harness) -> Self {
        Self { backend: erased(harness), vars: BTreeMap::new() }
    }

    /// Sets a variable that the harness names, in place of the environment: for a server that the target itself starts.
    pub fn var(mut self, name: &str, value: impl Into<String>) -> Self {
        self.vars.insert(name.to_owned(), value.into());
        self
    }

    /// Runs it.
    ///
    /// # Panics
    /// If threads can't be had.
    pub fn main(self) -> ExitCode {
        if let Some(env) = process::asked_for() {
            block_on(process::serve(self.backend, env));
            return ExitCode::SUCCESS;
        }
        let trials = all().into_iter().map(|case| self.trial(case)).collect();
        libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
    }

    fn trial(&self, case: Case) -> Trial {
        let (backend, given) = (Arc::clone(&self.backend), self.vars.clone());
        if let Some(why) = case.is_not_applicable(backend.promises()) {
            let name = format!("not_applicable::{}", case.name);
            return Trial::test(name, move || Err(Failed::from(why))).with_ignored_flag(true);
        }
        Trial::test(case.name.clone(), move || {
            let env = Env::new(servers(&*backend, given)?);
            let stage = Stage::new(&case.name, backend, env.clone());
            block_on((case.run)(stage.clone()));
            stage.check_history();
            env.remove_directory();
            Ok(())
        })
    }
}

/// The variables that name the servers. One that is not set fails the case: nothing passes by not running.
fn servers(backend: &dyn Backend, mut given: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Failed> {
    let promises = backend.promises();
    for name in promises.server_env {
        if !given.contains_key(*name) {
            let value = std::env::var(name)
                .map_err(|_| Failed::from(format!("{name} is not set: {}", promises.how_to_get_servers)))?;
            given.insert((*name).to_owned(), value);
        }
    }
    Ok(given)
}

fn block_on<F: Future<Output = ()>>(future: F) {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(2).enable_all().build().expect("threads").block_on(future);
}
