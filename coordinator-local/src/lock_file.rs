use crate::{error::classify, offsets::Offsets, range_lock};
use coordinator_core::{Error, ErrorKind, LossReason, Mode, Scope, Session};
use nix::{
    errno::Errno,
    libc,
    sys::statfs::{FsType, NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, fstatfs},
};
use std::{
    collections::HashSet,
    fs::{File, Metadata, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// File systems of other hosts, whose locks may be lost without a word.
const REMOTE: [FsType; 4] = [NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, FsType(0xFF53_4D42), FsType(0xFE53_4D42)];

/// The lock file, opened once: a session. It stays empty, also where its bytes are locked.
///
/// Everything held in it is held by one open file description, which std opens close-on-exec: a program that this
/// process starts does not inherit it. The kernel frees all when the last copy is closed, at the latest when the
/// process is gone.
#[derive(Debug)]
pub(crate) struct LockFile {
    path: PathBuf,
    inode: (u64, u64),
    session: Session,
    held: Mutex<Held>,
}

#[derive(Debug)]
enum Held {
    /// Which bytes this description has locked. The kernel would convert a second lock of a byte instead of refusing
    /// it, and two scopes may share a byte by chance or malice: then they exclude each other needlessly, by this.
    Open { file: File, bytes: HashSet<i64> },
    /// The session is lost.
    Closed,
}

impl LockFile {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let failed = |source: io::Error| classify("open", path, source);
        let file = open_here(path).map_err(failed)?;
        let (metadata, system) = (file.metadata().map_err(failed)?, fstatfs(&file).map_err(io::Error::from));
        if REMOTE.contains(&system.map_err(failed)?.filesystem_type()) {
            let message =
                format!("{} is on another host's file system: use a directory of a local one", path.display());
            return Err(Error::new(ErrorKind::Invalid, "open", message));
        }
        if !metadata.is_file() {
            return Err(failed(Errno::EISDIR.into()));
        }
        Ok(Self {
            path: path.into(),
            inode: inode(&metadata),
            session: Session::unbounded(),
            held: Mutex::new(Held::Open { file, bytes: HashSet::new() }),
        })
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// `Ok` while the session is live and the file is the one that others open by its name; else it is lost.
    ///
    /// A lock in a file that was removed or replaced excludes nobody who opens the new one.
    pub(crate) fn ensure_current(&self, operation: &'static str) -> Result<(), Error> {
        self.session.ensure_live(operation)?;
        match self.path.symlink_metadata() {
            Ok(metadata) if inode(&metadata) == self.inode => return Ok(()),
            Ok(_) => {}
            Err(source) if source.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(classify(operation, &self.path, source)),
        }
        self.lose(LossReason::NotHeld);
        self.session.ensure_live(operation)
    }

    /// Ends the session; everything that is held in it is free.
    pub(crate) fn lose(&self, reason: LossReason) {
        self.session.lose(reason); // told first: nobody may believe in a lock that another process can get
        let held = std::mem::replace(&mut *self.held(), Held::Closed);
        if let Held::Open { file, .. } = held {
            let _ = range_lock::free_all(&file); // closing does it too, unless a forked child has a copy
        }
    }

    /// Passes the turnstile, if nobody waits in it, and takes the scope, if it is free.
    pub(crate) fn try_take(self: &Arc<Self>, scope: &Scope, mode: Mode) -> Result<bool, Error> {
        let offsets = Offsets::of(scope);
        let Some(_turnstile) = Turnstile::enter(self, offsets, Mode::Shared)? else { return Ok(false) };
        self.take(offsets.scope, mode)
    }

    pub(crate) fn take(&self, at: i64, mode: Mode) -> Result<bool, Error> {
        let mut held = self.held();
        let Held::Open { file, bytes } = &mut *held else { return Err(self.lost("acquire")) };
        if bytes.contains(&at) {
            return Ok(false);
        }
        let taken = range_lock::take(file, at, mode).map_err(|errno| classify("acquire", &self.path, errno))?;
        if taken {
            bytes.insert(at);
        }
        Ok(taken)
    }

    pub(crate) fn free(&self, at: i64) -> Result<(), Error> {
        let freed = match &mut *self.held() {
            Held::Closed => return Err(self.lost("release")),
            Held::Open { file, bytes } => range_lock::free(file, at).map(|()| bytes.remove(&at)),
        };
        freed.map(drop).map_err(|errno| {
            self.lose(LossReason::Disconnected); // whether it is held is not known: closing the file frees it surely
            classify("release", &self.path, errno)
        })
    }

    /// How another description holds the byte, in a way that excludes `mode`; takes nothing.
    pub(crate) fn in_the_way(&self, at: i64, mode: Mode) -> Result<Option<Mode>, Error> {
        match &*self.held() {
            Held::Closed => Err(self.lost("inspect")),
            Held::Open { file, .. } => {
                range_lock::in_the_way(file, at, mode).map_err(|errno| classify("inspect", &self.path, errno))
            }
        }
    }

    fn lost(&self, operation: &'static str) -> Error {
        Error::lost(operation, self.session.loss().unwrap_or(LossReason::Disconnected))
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        self.lose(LossReason::ShutDown);
    }
}

/// The right to try for a scope: shared for a single try, exclusive for as long as one waits.
#[derive(Debug)]
pub(crate) struct Turnstile {
    file: Arc<LockFile>,
    at: i64,
}

impl Turnstile {
    pub(crate) fn enter(file: &Arc<LockFile>, offsets: Offsets, mode: Mode) -> Result<Option<Self>, Error> {
        let entered = file.take(offsets.turnstile, mode)?;
        Ok(entered.then(|| Self { file: Arc::clone(file), at: offsets.turnstile }))
    }

    pub(crate) fn is_of(&self, file: &Arc<LockFile>) -> bool {
        Arc::ptr_eq(&self.file, file)
    }
}

impl Drop for Turnstile {
    fn drop(&mut self) {
        let _ = self.file.free(self.at); // a failure has ended the session, which frees it too
    }
}

/// Opens what is in the directory itself, never what a link there points to.
pub(crate) fn open_here(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).custom_flags(libc::O_NOFOLLOW).open(path)
}

pub(crate) fn inode(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_that_share_a_byte_exclude_each_other_instead_of_converting_it() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("scopes.lock");
        let (one, two) = (LockFile::open(&path).expect("opened"), LockFile::open(&path).expect("opened"));
        assert!(one.take(7, Mode::Exclusive).expect("taken"));
        assert!(!one.take(7, Mode::Shared).expect("refused"));
        assert_eq!(two.in_the_way(7, Mode::Shared).expect("seen"), Some(Mode::Exclusive));
        one.free(7).expect("freed");
        assert!(two.take(7, Mode::Shared).expect("taken"));
        assert!(one.take(7, Mode::Shared).expect("taken"));
    }

    #[test]
    fn a_lost_session_holds_nothing_and_takes_nothing() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("scopes.lock");
        let (one, two) = (LockFile::open(&path).expect("opened"), LockFile::open(&path).expect("opened"));
        assert!(one.take(7, Mode::Exclusive).expect("taken"));
        one.lose(LossReason::ShutDown);
        assert!(two.take(7, Mode::Exclusive).expect("taken"));
        assert!(one.take(8, Mode::Exclusive).expect_err("lost").is_lost());
        assert!(one.free(7).expect_err("lost").is_lost());
    }
}
