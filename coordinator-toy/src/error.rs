//! What failures of the connection mean to a caller.

use coordinator_core::{Error, ErrorKind};
use std::io;

/// The error of a connection to `server`.
pub(crate) fn classify(operation: &'static str, server: &str, source: io::Error) -> Error {
    let (kind, advice) = match source.kind() {
        io::ErrorKind::InvalidInput => (ErrorKind::Invalid, "give the server's address as host:port"),
        io::ErrorKind::InvalidData => (ErrorKind::Invalid, "what listens there is not the lock server"),
        _ => (ErrorKind::Unavailable, "the server can't be reached"),
    };
    Error::with_source(kind, operation, format!("{server}: {advice}"), source)
}

/// A request whose session ended before the answer. What it may have got has ended with the session.
pub(crate) fn unanswered(operation: &'static str) -> Error {
    Error::new(ErrorKind::Unavailable, operation, "the session ended before the server answered")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_kind_that_a_caller_acts_on_and_keep_their_source() {
        for (found, kind) in [
            (io::ErrorKind::InvalidInput, ErrorKind::Invalid),
            (io::ErrorKind::InvalidData, ErrorKind::Invalid),
            (io::ErrorKind::ConnectionRefused, ErrorKind::Unavailable),
        ] {
            let error = classify("connect", "host:1", found.into());
            assert_eq!(error.kind(), kind, "{found}");
            assert!(std::error::Error::source(&error).is_some());
        }
    }
}
