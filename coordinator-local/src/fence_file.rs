use crate::{
    error::classify,
    lock_file::{inode, open_here},
    range_lock,
};
use coordinator_core::{Error, ErrorKind, FencingToken, Mode};
use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

/// How long a token is waited for while other processes fetch theirs, or one of them is stopped half-way.
const PATIENCE: Duration = Duration::from_secs(10);
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// The last token given to anybody, as eight bytes, little-endian; all scopes of a directory share it.
#[derive(Debug)]
pub(crate) struct FenceFile {
    path: PathBuf,
    /// The last token given here. Also the queue of this process's callers: one at a time asks the others.
    last: Mutex<u64>,
}

impl FenceFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, last: Mutex::new(0) }
    }

    /// The next token, on disk when it is returned. Blocks its thread.
    pub(crate) fn next(&self) -> Result<FencingToken, Error> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let file = self.alone()?;
        let stored = self.stored(&file)?;
        if stored < *last {
            return Err(self.broken(&format!("it went back from {} to {stored}", *last)));
        }
        let next = stored.checked_add(1).ok_or_else(|| self.broken("no number is left"))?;
        self.store(&file, next).map_err(|source| self.failed(source))?;
        *last = next;
        Ok(FencingToken::new(next))
    }

    /// The file, locked until it is closed.
    fn alone(&self) -> Result<File, Error> {
        let begin = Instant::now();
        loop {
            let file = open_here(&self.path).map_err(|source| self.failed(source))?;
            let locked = range_lock::take(&file, 0, Mode::Exclusive).map_err(|errno| self.failed(errno.into()))?;
            if locked && self.is_current(&file).map_err(|source| self.failed(source))? {
                return Ok(file);
            }
            if begin.elapsed() > PATIENCE {
                let message = format!("{}: other processes kept it for {PATIENCE:?}", self.path.display());
                return Err(Error::new(ErrorKind::Unavailable, "fence", message));
            }
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    fn is_current(&self, file: &File) -> io::Result<bool> {
        match self.path.symlink_metadata() {
            Ok(metadata) => Ok(inode(&metadata) == inode(&file.metadata()?)),
            Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(source),
        }
    }

    fn stored(&self, file: &File) -> Result<u64, Error> {
        let mut bytes = [0; 8];
        match file.metadata().map_err(|source| self.failed(source))?.len() {
            0 => Ok(0),
            8 => {
                file.read_exact_at(&mut bytes, 0).map_err(|source| self.failed(source))?;
                Ok(u64::from_le_bytes(bytes))
            }
            length => Err(self.broken(&format!("it has {length} bytes instead of 8"))),
        }
    }

    fn store(&self, file: &File, number: u64) -> io::Result<()> {
        file.write_all_at(&number.to_le_bytes(), 0)?;
        file.sync_data()?;
        if number == 1 {
            // The name too: without it, the numbers would begin anew after a power cut.
            File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()?;
        }
        Ok(())
    }

    fn broken(&self, how: &str) -> Error {
        let message = format!(
            "{}: {how}. Tokens must never repeat: write a number that is greater than every token a sink has seen \
             there, as 8 bytes, little-endian",
            self.path.display()
        );
        Error::new(ErrorKind::Invalid, "fence", message)
    }

    fn failed(&self, source: io::Error) -> Error {
        classify("fence", &self.path, source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_file_that_is_not_whole_is_refused_and_never_begun_anew() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("fence");
        let fence = FenceFile::new(path.clone());
        assert_eq!(fence.next().expect("a token").get(), 1);
        for (content, why) in [(&b"1234567"[..], "7 bytes"), (&[0; 8], "went back"), (&[0xff; 8], "no number is left")]
        {
            std::fs::write(&path, content).expect("written");
            let error = fence.next().expect_err("refused");
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(why), "{error}");
        }
        std::fs::write(&path, 41_u64.to_le_bytes()).expect("written");
        assert_eq!(fence.next().expect("a token").get(), 42);
    }
}
