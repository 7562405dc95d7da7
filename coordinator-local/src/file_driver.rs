use crate::{fence_file::FenceFile, lock_file::LockFile, offsets::Offsets, wait::Wait};
use coordinator_core::{
    CancellationToken, Driver, Error, ErrorKind, FencingToken, Grant, Inspection, Look, LossReason, Mode, Party, Scope,
    Session, Upkeep,
};
use std::{
    path::{Path, PathBuf},
    process,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

/// How often the lock file is looked at unasked, so that who holds a scope learns that the file was replaced.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many files in a row may be replaced under one request.
const MOST_FILES: usize = 8;

/// The processes of one host, through byte-range locks.
#[derive(Debug)]
pub struct FileDriver {
    path: PathBuf,
    fence: Arc<FenceFile>,
    upkeep: Upkeep,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// Another one in its place after a loss, at the next request.
    Open(Arc<LockFile>),
    Closed,
}

/// A scope held in an opened lock file.
#[derive(Clone, Debug)]
pub struct FileGrant(Arc<LockFile>);

impl Grant for FileGrant {
    fn session(&self) -> &Session {
        self.0.session()
    }
}

impl FileDriver {
    pub(crate) fn open(directory: &Path, upkeep: Upkeep) -> Result<Self, Error> {
        let (path, fence) = (directory.join("scopes.lock"), FenceFile::new(directory.join("fence")));
        let file = Arc::new(LockFile::open(&path)?);
        watch(&file, &upkeep);
        Ok(Self { path, fence: Arc::new(fence), upkeep, state: Mutex::new(State::Open(file)) })
    }

    /// The file that stands at the path now, opened anew if the one before was lost.
    fn current(&self) -> Result<Arc<LockFile>, Error> {
        let known = match &*self.state() {
            State::Open(file) => Arc::clone(file),
            State::Closed => return Err(closed()),
        };
        match known.ensure_current("acquire") {
            Ok(()) => return Ok(known),
            Err(error) if error.is_lost() => {}
            Err(error) => return Err(error),
        }
        let fresh = Arc::new(LockFile::open(&self.path)?);
        let mut state = self.state();
        match &*state {
            State::Closed => Err(closed()),
            State::Open(other) if !Arc::ptr_eq(other, &known) => Ok(Arc::clone(other)),
            State::Open(_) => {
                *state = State::Open(Arc::clone(&fresh));
                drop(state);
                watch(&fresh, &self.upkeep);
                Ok(fresh)
            }
        }
    }

    /// One attempt in the file that others use too; what `attempt` took is kept only there.
    fn attempt(
        &self,
        scope: &Scope,
        mut attempt: impl FnMut(&Arc<LockFile>) -> Result<bool, Error>,
    ) -> Result<Option<FileGrant>, Error> {
        for _ in 0..MOST_FILES {
            let file = self.current()?;
            let outcome = attempt(&file).and_then(|taken| match file.ensure_current("acquire") {
                Ok(()) => Ok(taken.then(|| FileGrant(Arc::clone(&file)))),
                Err(error) => {
                    if taken {
                        let _ = file.free(Offsets::of(scope).scope); // whether it excludes anybody is not known
                    }
                    Err(error)
                }
            });
            match outcome {
                Err(error) if error.is_lost() => {} // with the file everything in it; another one is opened
                outcome => return outcome,
            }
        }
        let message = format!("{} is replaced again and again: leave it alone", self.path.display());
        Err(Error::new(ErrorKind::Unavailable, "acquire", message))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self) {
        let state = std::mem::replace(&mut *self.state(), State::Closed);
        if let State::Open(file) = state {
            file.lose(LossReason::ShutDown);
        }
    }
}

/// None of the calls below but `lock` and `fence` waits for anything: they are system calls of a microsecond, on the
/// upkeep thread.
impl Driver for FileDriver {
    type Grant = FileGrant;

    const DISTRIBUTED: bool = false;

    async fn try_lock(&self, scope: Scope, mode: Mode) -> Result<Option<FileGrant>, Error> {
        self.attempt(&scope, |file| file.try_take(&scope, mode))
    }

    async fn lock(&self, scope: Scope, mode: Mode, unwanted: CancellationToken) -> Result<Option<FileGrant>, Error> {
        let mut wait = Wait::new(&scope, mode);
        while !unwanted.is_cancelled() {
            if let Some(grant) = self.attempt(&scope, |file| wait.look(file))? {
                return Ok(Some(grant));
            }
            let pause = wait.pause();
            tokio::select! {
                biased;
                () = unwanted.cancelled() => {}
                () = self.upkeep.sleep(pause) => {}
            }
        }
        Ok(None)
    }

    async fn unlock(&self, scope: Scope, FileGrant(file): FileGrant) -> Result<(), Error> {
        file.ensure_current("release")?;
        file.free(Offsets::of(&scope).scope)
    }

    async fn contended(&self, scope: Scope, FileGrant(file): FileGrant, _: Look) -> Result<bool, Error> {
        // Who waits holds the turnstile exclusive; who only tries has it shared for a moment and does not count.
        file.in_the_way(Offsets::of(&scope).turnstile, Mode::Shared).map(|waiter| waiter.is_some())
    }

    async fn confirm(&self, FileGrant(file): FileGrant) -> Result<(), Error> {
        file.ensure_current("release")
    }

    async fn verify(&self, _: Scope, FileGrant(file): FileGrant) -> Result<(), Error> {
        file.ensure_current("verify")
    }

    async fn fence(&self, _: Scope, FileGrant(file): FileGrant) -> Result<FencingToken, Error> {
        let fence = Arc::clone(&self.fence);
        let failed = |failed| {
            Error::with_source(ErrorKind::Unavailable, "fence", "the coordinator's runtime was shut down", failed)
        };
        // It waits for the disk: not on the thread that all leases are kept by.
        let token = tokio::task::spawn_blocking(move || fence.next()).await.map_err(failed)??;
        // Held now, so held when the number was drawn: a session that was lost is never live again.
        file.ensure_current("fence")?;
        Ok(token)
    }

    async fn inspect(&self, scope: Scope, own: Inspection) -> Result<Inspection, Error> {
        let (file, offsets) = (self.current()?, Offsets::of(&scope));
        let mut found = own;
        for party in found.holders.iter_mut().chain(&mut found.waiters) {
            party.instance = format!("pid {}", process::id());
        }
        let other = |mode| Party::new("another coordinator on this host", mode, None);
        if let Some(mode) = file.in_the_way(offsets.scope, Mode::Exclusive)? {
            found.holders.push(other(Some(mode)));
        }
        if file.in_the_way(offsets.turnstile, Mode::Shared)?.is_some() {
            found.waiters.push(other(None));
        }
        Ok(found)
    }

    async fn close(&self) {
        self.end();
    }
}

impl Drop for FileDriver {
    fn drop(&mut self) {
        self.end();
    }
}

/// Looks at the file unasked, and ends its session when the coordinator's runtime is shut down: nobody could free what
/// is held in it any more.
fn watch(file: &Arc<LockFile>, upkeep: &Upkeep) {
    let (watched, timer) = (Watched(Arc::downgrade(file)), upkeep.clone());
    drop(upkeep.spawn(async move {
        while watched.is_live() {
            timer.sleep(LOOK_EVERY).await;
        }
    }));
}

/// Does not keep the file open.
struct Watched(Weak<LockFile>);

impl Watched {
    fn is_live(&self) -> bool {
        // An error of another kind leaves the session as it is: who asks is told.
        self.0.upgrade().is_some_and(|file| !file.ensure_current("watch").is_err_and(|error| error.is_lost()))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(file) = self.0.upgrade() {
            file.lose(LossReason::Disconnected);
        }
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::ShutDown, "acquire", "the coordinator was shut down")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[tokio::test]
    async fn what_was_taken_in_a_file_that_is_replaced_meanwhile_is_taken_in_the_new_one() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let driver = FileDriver::open(directory.path(), Upkeep::Process).expect("opened");
        let (scope, mut files) = (Scope::new("scope").expect("a valid name"), 0);
        let grant = driver.attempt(&scope, |file| {
            files += 1;
            if files == 1 {
                fs::remove_file(&driver.path).expect("removed");
            }
            file.try_take(&scope, Mode::Exclusive)
        });
        let FileGrant(file) = grant.expect("no failure").expect("taken");
        assert_eq!(files, 2);
        file.ensure_current("test").expect("the new one");
        let other = FileDriver::open(directory.path(), Upkeep::Process).expect("opened");
        assert!(other.try_lock(scope, Mode::Shared).await.expect("an answer").is_none());
    }
}
