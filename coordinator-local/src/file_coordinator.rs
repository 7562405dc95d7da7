use crate::{error::classify, file_driver::FileDriver};
use coordinator_core::{Cohort, CohortBacked, CohortOptions, Error};
use std::{fmt, fs::DirBuilder, os::unix::fs::DirBuilderExt, path::Path};

/// A lock per scope among the processes of one host, through a directory that they share.
///
/// A process that crashes or is killed frees its scopes at once: the kernel does it. The directory holds two files,
/// however many scopes are ever used: `scopes.lock`, which stays empty, and `fence`, the last fencing token. Needs a
/// local file system, and Linux on a 64-bit processor.
///
/// ```
/// use coordinator_local::{Error, FileCoordinator, Mode, Scope, under_lock};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> {
/// # let temporary = tempfile::tempdir().expect("a temporary directory");
/// # let directory = temporary.path().join("locks");
/// let coordinator = FileCoordinator::open(&directory)?;
/// let subject = Scope::new("tenant-7/subject-42")?;
/// under_lock(&coordinator, &subject, Mode::Exclusive, async |lease| {
///     let token = lease.fence().await?;
///     assert_eq!(token.get(), 1);
///     Ok::<_, Error>(())
/// })
/// .await
/// # }
/// ```
///
/// # What it promises between processes
/// - It does not span hosts: [`is_distributed`](crate::ErasureCoordinator::is_distributed) is `false`.
/// - Every process of a deployment opens the same directory, with the same digest key if there is one.
/// - Waiters look at the lock every half to twenty milliseconds, the longer they have waited the more seldom. One of
///   them, drawn by chance, stands in the turnstile, and nobody passes it; the others are served with probability 1,
///   in no order. A flow of shared leases does not starve an exclusive waiter, nor the reverse.
/// - A process that is stopped (`SIGSTOP`, a debugger) keeps what it holds: the kernel can't tell it from one that
///   works, and no deadline ends its leases. Stopped while it *waits*, it delays others of that scope by a second
///   each time, and their tries find the scope taken, until it goes on or is killed.
/// - Who removes or replaces `scopes.lock` takes all leases away: holders learn it within a second, or at once by
///   [`verify`](crate::Lease::verify), [`fence`](crate::Lease::fence) and [`release`](crate::Lease::release). Until
///   then an old and a new holder may both believe.
/// - Fencing tokens grow for as long as the file `fence` is kept: not on a file system that a restart empties.
/// - A child forked without `exec` shares the locks; one that is started by [`std::process::Command`] does not.
pub struct FileCoordinator(Cohort<FileDriver>);

impl FileCoordinator {
    /// A coordinator over this directory, which is created for this user alone if it is not there.
    ///
    /// Processes of several users need a directory, made by hand, in which all of them can write both files.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) when the directory can't be written to, is something else, or is on
    /// another host; [`Unavailable`](crate::ErrorKind::Unavailable) when it can't be opened now.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_with(directory, Self::options())
    }

    /// The options of [`FileCoordinator::open`], to be changed and given to [`FileCoordinator::open_with`].
    ///
    /// At most 1,000 scopes are held or waited for at once: the kernel looks through all locks of the file at each
    /// request, in all processes together. Measured, an acquire and release beside 1,000 held scopes takes half as
    /// long again as beside none, beside 5,000 five times as long.
    pub fn options() -> CohortOptions {
        let mut options = CohortOptions::default();
        options.most_scopes = Some(1_000);
        options
    }

    /// As [`FileCoordinator::open`], with other options.
    ///
    /// # Errors
    /// As [`FileCoordinator::open`].
    pub fn open_with(directory: impl AsRef<Path>, options: CohortOptions) -> Result<Self, Error> {
        let directory = directory.as_ref();
        let failed = |source| classify("open", directory, source);
        // Absolute: the process may go to another working directory later.
        let absolute = std::path::absolute(directory).map_err(failed)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&absolute).map_err(failed)?;
        let driver = FileDriver::open(&absolute, options.upkeep.clone())?;
        Ok(Self(Cohort::new(driver, options)))
    }

    /// How many scopes this coordinator holds or waits for now; others cost no memory.
    pub fn scopes(&self) -> usize {
        self.0.scopes()
    }
}

impl fmt::Debug for FileCoordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileCoordinator").field("scopes", &self.scopes()).finish_non_exhaustive()
    }
}

impl CohortBacked for FileCoordinator {
    type Driver = FileDriver;

    fn cohort(&self) -> &Cohort<FileDriver> {
        &self.0
    }
}
