use crate::{
    lock_file::{LockFile, Turnstile},
    offsets::Offsets,
    pause::Pause,
};
use coordinator_core::{Error, Mode, Scope};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// How long a scope is seen free, behind an occupied turnstile, until whoever is in the turnstile counts as frozen.
///
/// A waiter that runs looks fifty times a second at least, and takes what it finds free.
const FROZEN: Duration = Duration::from_secs(1);

/// One wait for a scope, look by look.
#[derive(Debug)]
pub(crate) struct Wait {
    offsets: Offsets,
    mode: Mode,
    stage: Stage,
    pause: Pause,
}

#[derive(Debug)]
enum Stage {
    /// Another process waits before this one.
    Outside { free_since: Option<Instant> },
    /// Nobody passes this process: the next look that finds the scope free is its.
    Inside(Turnstile),
}

impl Wait {
    pub(crate) fn new(scope: &Scope, mode: Mode) -> Self {
        let stage = Stage::Outside { free_since: None };
        Self { offsets: Offsets::of(scope), mode, stage, pause: Pause::new() }
    }

    /// Whether the scope was taken by this look. The turnstile is left when the wait is dropped.
    pub(crate) fn look(&mut self, file: &Arc<LockFile>) -> Result<bool, Error> {
        if matches!(&self.stage, Stage::Inside(turnstile) if !turnstile.is_of(file)) {
            self.stage = Stage::Outside { free_since: None }; // the file was replaced: everybody begins anew
        }
        if matches!(self.stage, Stage::Outside { .. })
            && let Some(turnstile) = Turnstile::enter(file, self.offsets, Mode::Exclusive)?
        {
            self.stage = Stage::Inside(turnstile);
            self.pause.restart();
        }
        match &mut self.stage {
            Stage::Inside(_) => file.take(self.offsets.scope, self.mode),
            // The turnstile only orders the waiters; what excludes is the lock of the scope itself. So one who was
            // stopped in it can be passed, but not while anybody holds the scope: it may be waiting rightly then.
            Stage::Outside { free_since } => {
                if file.in_the_way(self.offsets.scope, Mode::Exclusive)?.is_some() {
                    *free_since = None;
                    return Ok(false);
                }
                let frozen = free_since.get_or_insert_with(Instant::now).elapsed() >= FROZEN;
                if frozen { file.take(self.offsets.scope, self.mode) } else { Ok(false) }
            }
        }
    }

    /// How long to sleep until the next look.
    pub(crate) fn pause(&mut self) -> Duration {
        self.pause.next()
    }
}
