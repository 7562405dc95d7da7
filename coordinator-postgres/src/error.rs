use coordinator_core::{Error, ErrorKind};
use std::error::Error as _;
use tokio_postgres::error::SqlState;

/// What a caller can do about a driver's error.
pub(crate) fn classify(operation: &'static str, error: tokio_postgres::Error) -> Error {
    let (kind, message) = match error.code() {
        None if error.is_closed() => (ErrorKind::Unavailable, "the session with the server ended".into()),
        None => (ErrorKind::Unavailable, unreached(&error)),
        Some(code) => told(code, &error),
    };
    Error::with_source(kind, operation, message, error)
}

fn unreached(error: &tokio_postgres::Error) -> String {
    let inner = error.source().map(ToString::to_string).unwrap_or_default();
    if inner.contains("certificate") || inner.contains("TLS") || inner.contains("tls") {
        return format!(
            "the server could not be reached over TLS ({inner}): check sslmode, sslrootcert and the host name"
        );
    }
    "the server could not be reached".into()
}

fn told(code: &SqlState, error: &tokio_postgres::Error) -> (ErrorKind, String) {
    let said = error.as_db_error().map_or("", tokio_postgres::error::DbError::message);
    let state = code.code();
    let because = |why: &str| format!("{why} (SQLSTATE {state}: {said})");
    match state {
        // What the server may do differently in a moment: it starts, stops, is full, ended the session.
        "57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "57014" | "55P03" => {
            (ErrorKind::Unavailable, because("the server did not do it now"))
        }
        "53300" => (ErrorKind::Unavailable, because("the server has no connection left: raise max_connections")),
        "53200" => (
            ErrorKind::Unavailable,
            because("the server's lock table is full: raise max_locks_per_transaction, or lower the cap of scopes"),
        ),
        "08P01" => (ErrorKind::Invalid, because(POOLER)),
        "28P01" | "28000" => {
            (ErrorKind::Invalid, because("the server refused the role: check user, password, pg_hba.conf"))
        }
        "3D000" => (ErrorKind::Invalid, because("the database does not exist")),
        "42704" | "22023" => (
            ErrorKind::Invalid,
            because("the server does not take a setting that the lock needs: PostgreSQL 14 or newer is needed"),
        ),
        "42501" => (ErrorKind::Invalid, because("the role lacks a privilege that the lock needs")),
        _ => (ErrorKind::Unavailable, because("the server refused")),
    }
}

/// Why a pooler is refused, and what to do.
pub(crate) const POOLER: &str = "a connection pooler stands before the server: advisory locks belong to sessions, and in \
    transaction or statement mode two clients would hold one lock. Connect to the server itself (session mode would be \
    right too, but can't be told apart from here)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreachable_servers_are_retried_and_refusals_are_fixed() {
        // Kinds by SQLSTATE; a `tokio_postgres::Error` with a code can only come from a server (tests/connect.rs).
        for (state, kind) in [
            ("57P01", ErrorKind::Unavailable),
            ("57P03", ErrorKind::Unavailable),
            ("53300", ErrorKind::Unavailable),
            ("53200", ErrorKind::Unavailable),
            ("08P01", ErrorKind::Invalid),
            ("28P01", ErrorKind::Invalid),
            ("3D000", ErrorKind::Invalid),
            ("42704", ErrorKind::Invalid),
            ("42501", ErrorKind::Invalid),
        ] {
            let refused = "host=x bogus=1".parse::<tokio_postgres::Config>().expect_err("unknown option");
            assert_eq!(told(&SqlState::from_code(state), &refused).0, kind, "{state}");
        }
    }
}
