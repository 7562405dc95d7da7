//! Locks of one byte that belong to an open file description, never to the process; none of these calls waits.

use coordinator_core::Mode;
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
    libc,
};
use std::fs::File;

/// Locks the byte at `at`; `false` when another description is in the way.
///
/// What this description has there already is converted, not counted: the caller keeps track of that.
pub(crate) fn take(file: &File, at: i64, mode: Mode) -> Result<bool, Errno> {
    match fcntl(file, FcntlArg::F_OFD_SETLK(&range(kind(mode), at, 1))) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Frees the byte at `at`; also when it was not locked.
pub(crate) fn free(file: &File, at: i64) -> Result<(), Errno> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&range(libc::F_UNLCK, at, 1))).map(drop)
}

/// Frees all that this description holds, also what a forked child shares of it.
pub(crate) fn free_all(file: &File) -> Result<(), Errno> {
    const TO_THE_END: i64 = 0;
    fcntl(file, FcntlArg::F_OFD_SETLK(&range(libc::F_UNLCK, 0, TO_THE_END))).map(drop)
}

/// How another description holds the byte at `at`, in a way that excludes `mode`; takes nothing.
pub(crate) fn in_the_way(file: &File, at: i64, mode: Mode) -> Result<Option<Mode>, Errno> {
    let mut range = range(kind(mode), at, 1);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut range))?;
    Ok(match i32::from(range.l_type) {
        libc::F_UNLCK => None,
        libc::F_RDLCK => Some(Mode::Shared),
        _ => Some(Mode::Exclusive),
    })
}

fn kind(mode: Mode) -> i32 {
    match mode {
        Mode::Exclusive => libc::F_WRLCK,
        Mode::Shared => libc::F_RDLCK,
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the constants are 0, 1 and 2")]
fn range(kind: i32, at: i64, length: i64) -> libc::flock {
    libc::flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: at, l_len: length, l_pid: 0 }
}
