use coordinator_core::{Error, ErrorKind};
use redis::{ErrorKind as Kind, RedisError, ServerErrorKind};

/// What a caller can do about a driver's error.
pub(crate) fn classify(operation: &'static str, error: RedisError) -> Error {
    let (kind, message) = verdict(&error);
    let message = match error.detail() {
        Some(said) if is_told(&error) => format!("{message} ({said})"),
        _ => message.to_owned(),
    };
    Error::with_source(kind, operation, message, error)
}

/// The server itself has said that it did not do it; else the answer is unknown.
pub(crate) fn is_told(error: &RedisError) -> bool {
    matches!(error.kind(), Kind::Server(_) | Kind::Extension | Kind::AuthenticationFailed | Kind::RESP3NotSupported)
}

/// Another server, or this one a moment later, may do it: a connection found anew leads there.
pub(crate) fn is_elsewhere(error: &RedisError) -> bool {
    use ServerErrorKind::{BusyLoading, ClusterDown, MasterDown, Moved, ReadOnly, TryAgain};
    matches!(error.kind(), Kind::Server(ReadOnly | BusyLoading | MasterDown | ClusterDown | TryAgain | Moved))
}

fn verdict(error: &RedisError) -> (ErrorKind, &'static str) {
    match error.kind() {
        Kind::AuthenticationFailed => {
            (ErrorKind::Invalid, "the server refused the user: check the URL's user and password")
        }
        Kind::Server(ServerErrorKind::NoPerm) => (ErrorKind::Invalid, NO_PERMISSION),
        Kind::Server(ServerErrorKind::Moved | ServerErrorKind::CrossSlot) => {
            (ErrorKind::Invalid, "another node of the cluster has the keys: name that one, or all of them")
        }
        Kind::Server(ServerErrorKind::ReadOnly) => {
            (ErrorKind::Unavailable, "the server has become a replica: the next attempt looks for the primary")
        }
        Kind::Server(ServerErrorKind::BusyLoading) => (ErrorKind::Unavailable, "the server is still loading its data"),
        Kind::RESP3NotSupported => (ErrorKind::Invalid, "Redis 6.2 or newer is needed: the server does not know RESP3"),
        Kind::InvalidClientConfig => (ErrorKind::Invalid, "the configuration can't be used"),
        Kind::Server(_) | Kind::Extension => match error.code() {
            Some("OOM") => (ErrorKind::Unavailable, "the server's memory is full: raise maxmemory"),
            Some("NOAUTH" | "WRONGPASS") => {
                (ErrorKind::Invalid, "the server refused the user: check the URL's user and password")
            }
            Some("NOREPLICAS") => (ErrorKind::Unavailable, "the server has too few replicas to accept a write"),
            _ => (ErrorKind::Unavailable, "the server refused"),
        },
        _ => (ErrorKind::Unavailable, "the server could not be reached, or the connection ended"),
    }
}

const NO_PERMISSION: &str = "the user lacks a right that the lock needs: ~coordinator:* &coordinator:* \
    +@scripting +@read +@write +@pubsub +@connection +info +time +wait";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreachable_servers_are_retried_and_refusals_are_fixed() {
        let said = |code: &str| redis::make_extension_error(code.to_owned(), Some("said".to_owned()));
        let server = |kind| RedisError::from((Kind::Server(kind), "said"));
        for (error, kind) in [
            (RedisError::from((Kind::Io, "gone")), ErrorKind::Unavailable),
            (RedisError::from((Kind::AuthenticationFailed, "no")), ErrorKind::Invalid),
            (RedisError::from((Kind::RESP3NotSupported, "no")), ErrorKind::Invalid),
            (server(ServerErrorKind::NoPerm), ErrorKind::Invalid),
            (server(ServerErrorKind::Moved), ErrorKind::Invalid),
            (server(ServerErrorKind::ReadOnly), ErrorKind::Unavailable),
            (server(ServerErrorKind::BusyLoading), ErrorKind::Unavailable),
            (server(ServerErrorKind::MasterDown), ErrorKind::Unavailable),
            (said("OOM"), ErrorKind::Unavailable),
            (said("NOREPLICAS"), ErrorKind::Unavailable),
            (said("WRONGPASS"), ErrorKind::Invalid),
            (said("ANYTHING"), ErrorKind::Unavailable),
        ] {
            assert_eq!(verdict(&error).0, kind, "{error}");
            assert_eq!(is_told(&error), error.kind() != Kind::Io, "{error}");
        }
    }
}
