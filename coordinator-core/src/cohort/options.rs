use crate::{DigestKey, Upkeep};
use std::time::Duration;

/// How a cohort serves its callers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CohortOptions {
    /// How long a scope is handed on inside the instance before the backend is asked whether others wait.
    pub window: Duration,
    /// How long it is handed on at most, whoever waits.
    pub longest_tenure: Duration,
    /// How many scopes the instance holds or waits for at most.
    pub most_scopes: Option<usize>,
    /// How long a caller waits for room at that cap.
    pub wait_for_room: Duration,
    /// Whether an acquire waits for a backend that is away, instead of failing.
    pub outlast_outages: bool,
    /// A secret that turns digests into ones that can't be guessed.
    pub digest_key: Option<DigestKey>,
    /// Where the driver runs.
    pub upkeep: Upkeep,
}

impl Default for CohortOptions {
    fn default() -> Self {
        Self {
            window: Duration::from_millis(10),
            longest_tenure: Duration::from_secs(1),
            most_scopes: None,
            wait_for_room: Duration::from_secs(10),
            outlast_outages: false,
            digest_key: None,
            upkeep: Upkeep::Process,
        }
    }
}
