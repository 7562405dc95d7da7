//! What the operating system's errors mean to a caller.

use coordinator_core::{Error, ErrorKind};
use nix::errno::Errno;
use std::{io, path::Path};

/// The error of a call on `path`, with what to do about it.
pub(crate) fn classify(operation: &'static str, path: &Path, source: impl Into<io::Error>) -> Error {
    let source = source.into();
    let (kind, advice) = advise(&source);
    Error::with_source(kind, operation, format!("{}: {advice}", path.display()), source)
}

fn advise(source: &io::Error) -> (ErrorKind, &'static str) {
    let errno = source.raw_os_error().map(Errno::from_raw);
    match errno {
        Some(Errno::EACCES | Errno::EPERM | Errno::EROFS) => {
            (ErrorKind::Invalid, "this user has to be able to read and write here")
        }
        Some(Errno::ENOTDIR | Errno::EISDIR | Errno::ELOOP | Errno::ENAMETOOLONG | Errno::ENXIO) => {
            (ErrorKind::Invalid, "something else is where a directory or a file of its own is needed")
        }
        Some(Errno::EINVAL | Errno::EOPNOTSUPP | Errno::ENOSYS | Errno::EOVERFLOW) => {
            (ErrorKind::Invalid, "this file system has no byte-range locks: use a directory of a local one")
        }
        Some(Errno::ENOENT) => {
            (ErrorKind::Unavailable, "the directory was removed: create it again, or open the coordinator anew")
        }
        Some(Errno::EMFILE | Errno::ENFILE) => {
            (ErrorKind::Unavailable, "there are too many open files: raise the limit")
        }
        Some(Errno::ENOSPC | Errno::EDQUOT) => (ErrorKind::Unavailable, "the file system is full: make room"),
        Some(Errno::ENOLCK) => (ErrorKind::Unavailable, "the kernel has no room for another lock: hold fewer scopes"),
        _ => (ErrorKind::Unavailable, "the operating system refused; its own reason is the source of this error"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_kind_that_a_caller_acts_on_and_keep_their_source() {
        for (errno, kind) in [
            (Errno::EACCES, ErrorKind::Invalid),
            (Errno::ENOTDIR, ErrorKind::Invalid),
            (Errno::EOPNOTSUPP, ErrorKind::Invalid),
            (Errno::ENOENT, ErrorKind::Unavailable),
            (Errno::EMFILE, ErrorKind::Unavailable),
            (Errno::ENOSPC, ErrorKind::Unavailable),
            (Errno::ENOLCK, ErrorKind::Unavailable),
            (Errno::EIO, ErrorKind::Unavailable),
        ] {
            let error = classify("acquire", Path::new("dir"), errno);
            assert_eq!(error.kind(), kind, "{errno}");
            assert!(std::error::Error::source(&error).is_some());
        }
    }
}
