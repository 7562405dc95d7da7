use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Where an instance of a case lives: its name, its namespace, its servers. The same in whatever process it is.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Env {
    namespace: String,
    instance: String,
    directory: PathBuf,
    vars: BTreeMap<String, String>,
    is_linked: bool,
}

impl Env {
    pub(crate) fn new(vars: BTreeMap<String, String>) -> Self {
        let namespace = unique("testkit");
        let directory = std::env::temp_dir().join(&namespace);
        Self { instance: format!("{namespace}-0"), namespace, directory, vars, is_linked: false }
    }

    /// The value of a variable that [`Harness::SERVER_ENV`](crate::Harness::SERVER_ENV) names; in cases that break
    /// links, with the kit's links in place of the servers.
    ///
    /// # Panics
    /// If the harness does not name the variable.
    pub fn var(&self, name: &str) -> &str {
        self.vars.get(name).unwrap_or_else(|| panic!("{name} is not in the harness's SERVER_ENV"))
    }

    /// Instances of one namespace exclude each other; each case has its own.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// A name for this instance, that no other has.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// A directory of the namespace, for backends that live in files; removed when the case has ended.
    ///
    /// # Panics
    /// If it can't be made.
    pub fn directory(&self) -> &Path {
        std::fs::create_dir_all(&self.directory).expect("the temporary directory can be written");
        &self.directory
    }

    /// Whether a link of the kit stands before the servers: it needs to tell messages apart, so don't encrypt them.
    pub fn is_linked(&self) -> bool {
        self.is_linked
    }

    /// The same place for another instance.
    pub(crate) fn another(&self) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { instance: format!("{}-{number}", self.namespace), ..self.clone() }
    }

    /// With other servers, or links in place of them.
    pub(crate) fn with(&self, vars: impl IntoIterator<Item = (String, String)>, is_linked: bool) -> Self {
        let mut env = Self { is_linked, ..self.clone() };
        env.vars.extend(vars);
        env
    }

    pub(crate) fn vars(&self) -> &BTreeMap<String, String> {
        &self.vars
    }

    pub(crate) fn remove_directory(&self) {
        let _ = std::fs::remove_dir_all(&self.directory); // most cases have made none
    }
}

/// A name that no other case has, in this run or an earlier one.
///
/// # Panics
/// If the clock stands before 1970.
pub fn unique(what: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros();
    format!("{what}-{:x}-{:x}-{:x}", since & 0xff_ffff_ffff, std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
