//! What a connect fails with: the kind a caller acts on, in time, and never the password.

use crate::kit::environment::{admin_url, at, builder, client, unique, url, with};
use crate::kit::proxy::{Fault, Side, Trap, link_to, way};
use coordinator_postgres::{Error, ErrorKind, PostgresBuilder, PostgresCoordinator};
use coordinator_testkit::within;
use std::fmt::Write;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

crate::trials![
    a_wrong_password_is_refused_and_not_repeated,
    a_missing_database_or_role_is_refused,
    a_bad_url_is_refused_without_its_password,
    an_unreachable_port_is_unavailable_at_once,
    a_host_that_never_answers_is_given_up_within_the_connect_timeout,
    a_host_that_answers_but_does_not_finish_is_given_up_too,
    a_server_without_a_free_connection_is_unavailable,
    options_out_of_range_are_refused_with_what_to_do,
];

const PASSWORD: &str = "pass-that-nobody-may-read";

/// All that a log could show of it.
fn all_of(error: &Error) -> String {
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        write!(text, " {cause} {cause:?}").expect("memory");
        source = cause.source();
    }
    text
}

async fn refusal(building: PostgresBuilder) -> Error {
    assert!(!format!("{building:?}").contains(PASSWORD));
    let error = within(Duration::from_secs(10), "an answer", building.connect()).await.expect_err("refused");
    assert!(!all_of(&error).contains(PASSWORD), "{}", all_of(&error));
    error
}

fn with_password(url: &str, role: &str) -> String {
    let (_, rest) = url.split_once('@').expect("role@");
    format!("postgres://{role}:{PASSWORD}@{rest}")
}

async fn a_wrong_password_is_refused_and_not_repeated() {
    let error = refusal(builder(&with_password(&url(), "coordinator"), "n")).await;
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("password"), "{error}");
}

async fn a_missing_database_or_role_is_refused() {
    let (before, _) = url().rsplit_once('/').map(|(before, after)| (before.to_owned(), after.to_owned())).expect("/");
    let error = refusal(builder(&format!("{before}/no-such-database"), "n")).await;
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("database does not exist"), "{error}");
    let error = refusal(builder(&with_password(&url(), "no-such-role"), "n")).await;
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

async fn a_bad_url_is_refused_without_its_password() {
    for bad in [
        format!("postgres://me:{PASSWORD}@host:no-port/db"),
        format!("postgres://me:{PASSWORD}@host/db?no_such_option=1"),
        format!("host=host password={PASSWORD} no_such_option=1"),
        format!("host=host password='{PASSWORD}"),
        format!("postgres://me:{PASSWORD}@host/db?connect_timeout={PASSWORD}"),
        PASSWORD.to_owned(),
    ] {
        let error = PostgresCoordinator::builder(&bad).expect_err("no URL");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(!all_of(&error).contains(PASSWORD), "{}", all_of(&error));
    }
    let error =
        refusal(PostgresCoordinator::builder(&format!("user=me password={PASSWORD}")).expect("it parses")).await;
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("host"), "{error}");
}

async fn an_unreachable_port_is_unavailable_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let place = listener.local_addr().expect("an address").to_string();
    drop(listener);
    let begin = Instant::now();
    let error = refusal(builder(&at(&with_password(&url(), "coordinator"), &place), "n")).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.is_retryable() && begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
}

async fn a_host_that_never_answers_is_given_up_within_the_connect_timeout() {
    // Accepts by its kernel alone.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let place = listener.local_addr().expect("an address").to_string();
    for mode in ["disable", "require"] {
        let black_hole = with(&at(&with_password(&url(), "coordinator"), &place), &format!("sslmode={mode}"));
        let begin = Instant::now();
        let error = refusal(builder(&black_hole, "n").connect_timeout(Duration::from_secs(1))).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("1s"), "{error}");
        let took = begin.elapsed();
        assert!(took >= Duration::from_millis(900) && took < Duration::from_secs(2), "{took:?}");
    }
}

async fn a_host_that_answers_but_does_not_finish_is_given_up_too() {
    let proxy = link_to(&url()).await;
    let slow = way(&proxy, &url());
    for after in [1, 20, 40] {
        proxy.set(Trap { fault: Fault::Silence, of: Some(Side::Server), after });
        let begin = Instant::now();
        let error = refusal(builder(&slow, "n").connect_timeout(Duration::from_secs(1))).await;
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(begin.elapsed() < Duration::from_millis(2_500), "{after}: {:?}", begin.elapsed());
        assert!(proxy.heal(), "{after}");
    }
}

async fn a_server_without_a_free_connection_is_unavailable() {
    let admin = client(&admin_url()).await;
    let role = unique("full").replace('-', "_");
    admin.batch_execute(&format!("CREATE ROLE {role} LOGIN PASSWORD 'p' CONNECTION LIMIT 0")).await.expect("made");
    let (_, rest) = url().split_once('@').map(|(a, b)| (a.to_owned(), b.to_owned())).expect("role@");
    let error = refusal(builder(&format!("postgres://{role}:p@{rest}"), "n")).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("max_connections"), "{error}");
    admin.batch_execute(&format!("DROP ROLE {role}")).await.expect("dropped");
}

async fn options_out_of_range_are_refused_with_what_to_do() {
    let url = url();
    let with = || builder(&url, "n");
    for (building, says) in [
        (with().dead_peer_timeout(Duration::from_millis(3_999)), "at least 4 s"),
        (with().release_when_silent_for(Duration::from_millis(2_999)), "at least 3 s"),
        (with().waiting_sessions(0), "at least 1"),
        (with().most_scopes(0), "at least 1"),
        (with().instance(""), "1 to 42"),
        (with().instance("x".repeat(43)), "1 to 42"),
        (with().instance("tab\there"), "printable"),
        (with().dead_peer_timeout(Duration::from_secs(u64::MAX / 4)), "at most"),
        (with().release_when_silent_for(Duration::from_secs(u64::MAX / 4)), "at most"),
    ] {
        let error = refusal(building).await;
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(says), "{error}");
    }
}
