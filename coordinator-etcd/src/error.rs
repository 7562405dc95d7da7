use coordinator_core::{Error, ErrorKind};
use std::error::Error as _;
use tonic::Code;

/// What a caller can do about an error of the client, or of the server.
pub(crate) fn classify(operation: &'static str, error: etcd_client::Error) -> Error {
    let (kind, message) = match &error {
        etcd_client::Error::GRpcStatus(status) => told(status),
        etcd_client::Error::InvalidArgs(_)
        | etcd_client::Error::InvalidUri(_)
        | etcd_client::Error::InvalidMetadataValue(_) => {
            (ErrorKind::Invalid, "the endpoints can't be used: give http://host:port or https://host:port".into())
        }
        _ => (ErrorKind::Unavailable, "the server could not be reached".into()),
    };
    Error::with_source(kind, operation, message, error)
}

fn told(status: &tonic::Status) -> (ErrorKind, String) {
    let because = |why: &str| format!("{why} ({:?}: {})", status.code(), status.message());
    match status.code() {
        // The server's own words are the only difference: this one passes.
        Code::InvalidArgument if is_old_token(status) => {
            (ErrorKind::Unavailable, because("the server's users changed"))
        }
        Code::InvalidArgument if status.message().contains("authentication") => {
            (ErrorKind::Invalid, because("the server refused the user: check name and password"))
        }
        Code::InvalidArgument if status.message().contains("user name is empty") => {
            (ErrorKind::Invalid, because("the server asks for a user: give its name and password"))
        }
        Code::FailedPrecondition if status.message().contains("authentication is not enabled") => {
            (ErrorKind::Invalid, because("the server knows no users: give no name and password, or enable them there"))
        }
        Code::PermissionDenied => {
            (ErrorKind::Invalid, because("the user needs to read and write the keys of the namespace"))
        }
        Code::ResourceExhausted if status.message().contains("database space exceeded") => (
            ErrorKind::Unavailable,
            because("the server's database is full: compact and defragment it, then disarm its alarm"),
        ),
        Code::InvalidArgument | Code::FailedPrecondition | Code::Unimplemented | Code::OutOfRange => {
            (ErrorKind::Invalid, because("the server does not take the request"))
        }
        // With a source it is the connection's own.
        _ if status.source().is_some() => (ErrorKind::Unavailable, because("the server could not be reached")),
        _ => (ErrorKind::Unavailable, because("the server did not do it now")),
    }
}

/// Whether asking again, or another server, may help; what a request did that failed so is not known.
pub(crate) fn is_passing(error: &etcd_client::Error) -> bool {
    let etcd_client::Error::GRpcStatus(status) = error else {
        return matches!(error, etcd_client::Error::TransportError(_) | etcd_client::Error::IoError(_))
            || matches!(error, etcd_client::Error::WatchError(_) | etcd_client::Error::Internal(_));
    };
    match status.code() {
        Code::InvalidArgument => is_old_token(status),
        Code::PermissionDenied | Code::FailedPrecondition | Code::NotFound | Code::Unimplemented | Code::OutOfRange => {
            false
        }
        _ => true,
    }
}

/// The user's token was made before the last change of the server's users; a new one is taken.
pub(crate) fn needs_new_token(error: &etcd_client::Error) -> bool {
    matches!(error, etcd_client::Error::GRpcStatus(status)
        if status.code() == Code::Unauthenticated || is_old_token(status))
}

fn is_old_token(status: &tonic::Status) -> bool {
    status.message().contains("revision of auth store is old")
}

/// The lease that a request named is no more.
pub(crate) fn is_without_lease(error: &etcd_client::Error) -> bool {
    match error {
        etcd_client::Error::GRpcStatus(status) => status.code() == Code::NotFound,
        // E9: the client says so of an answer without a time to live.
        etcd_client::Error::LeaseKeepAliveError(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etcd_client::Error as Etcd;
    use tonic::Status;

    #[test]
    fn what_may_pass_is_retried_and_the_rest_is_fixed() {
        for (status, kind, passes) in [
            (Status::unavailable("etcdserver: no leader"), ErrorKind::Unavailable, true),
            (Status::unavailable("etcdserver: request timed out"), ErrorKind::Unavailable, true),
            (Status::deadline_exceeded(""), ErrorKind::Unavailable, true),
            (Status::unauthenticated("etcdserver: invalid auth token"), ErrorKind::Unavailable, true),
            (Status::invalid_argument("etcdserver: revision of auth store is old"), ErrorKind::Unavailable, true),
            (
                Status::invalid_argument("etcdserver: authentication failed, invalid user ID or password"),
                ErrorKind::Invalid,
                false,
            ),
            (Status::invalid_argument("etcdserver: user name is empty"), ErrorKind::Invalid, false),
            (Status::permission_denied("etcdserver: permission denied"), ErrorKind::Invalid, false),
            (Status::resource_exhausted("etcdserver: mvcc: database space exceeded"), ErrorKind::Unavailable, true),
            (Status::not_found("etcdserver: requested lease not found"), ErrorKind::Unavailable, false),
        ] {
            let error = Etcd::GRpcStatus(status.clone());
            assert_eq!(is_passing(&error), passes, "{status}");
            assert_eq!(classify("lock", error).kind(), kind, "{status}");
        }
        assert_eq!(classify("connect", Etcd::InvalidArgs("x".into())).kind(), ErrorKind::Invalid);
        assert!(!is_passing(&Etcd::InvalidArgs("x".into())));
    }

    #[test]
    fn a_dead_lease_is_known_however_it_is_told() {
        assert!(is_without_lease(&Etcd::GRpcStatus(Status::not_found("etcdserver: requested lease not found"))));
        assert!(is_without_lease(&Etcd::LeaseKeepAliveError("lease not found".into())));
        assert!(!is_without_lease(&Etcd::GRpcStatus(Status::unavailable("etcdserver: no leader"))));
    }
}
