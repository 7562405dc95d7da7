//! How much of the server's certificate each `sslmode` checks.

use crate::kit::environment::{at, builder, client, port, scope, unique, url, variable, with};
use coordinator_postgres::{ErasureCoordinator, Error, ErrorKind, Mode, PostgresCoordinator, TlsMode};
use std::path::{Path, PathBuf};
use std::process::Command;

crate::trials![
    require_encrypts_and_disable_does_not,
    verify_full_takes_the_right_certificate,
    verify_full_refuses_a_host_of_another_name,
    verify_ca_takes_a_host_of_another_name,
    verify_ca_and_verify_full_refuse_an_unknown_authority,
    roots_that_cannot_be_read_are_refused,
    a_server_without_tls_is_refused_where_it_is_required,
];

/// Connects; answers whether the server says that all its sessions are encrypted.
async fn is_encrypted(parameters: &str, url: &str) -> Result<bool, Error> {
    let name = unique("tls");
    let coordinator = builder(&with(url, parameters), &name).instance(&name).connect().await?;
    let lease = coordinator.acquire(&scope("s"), Mode::Exclusive).await?;
    let sql = "SELECT bool_and(ssl), count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
        WHERE application_name LIKE '% ' || $1";
    let row = client(&self::url()).await.query_one(sql, &[&name]).await.expect("readable");
    assert_eq!(row.get::<_, i64>(1), 2, "the primary and a waiting session");
    lease.release().await?;
    Ok(row.get(0))
}

fn named(host: &str) -> String {
    at(&url(), &format!("{host}:{}", port(&url())))
}

fn authority() -> String {
    variable("COORDINATOR_TEST_POSTGRES_CA")
}

/// An authority that nobody's certificate comes from.
fn other_authority() -> PathBuf {
    let directory = std::env::temp_dir().join(unique("authority"));
    std::fs::create_dir(&directory).expect("a directory");
    let file = directory.join("other.crt");
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]);
    openssl.args(["-subj", "/CN=another authority", "-keyout"]).arg(directory.join("key")).arg("-out").arg(&file);
    let output = openssl.output().expect("openssl runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    file
}

fn drop_authority(file: &Path) {
    std::fs::remove_dir_all(file.parent().expect("a directory")).expect("it is ours");
}

async fn require_encrypts_and_disable_does_not() {
    assert!(is_encrypted("sslmode=require", &url()).await.expect("connected"));
    assert!(is_encrypted("sslmode=prefer", &url()).await.expect("connected"));
    assert!(!is_encrypted("sslmode=disable", &url()).await.expect("connected"));
}

async fn verify_full_takes_the_right_certificate() {
    let parameters = format!("sslmode=verify-full&sslrootcert={}", authority());
    assert!(is_encrypted(&parameters, &named("127.0.0.1")).await.expect("connected"));
    assert!(is_encrypted(&parameters, &named("localhost")).await.expect("connected"));
    let encoded = format!("sslmode=verify-full&sslrootcert={}", authority().replace('/', "%2F"));
    assert!(is_encrypted(&encoded, &url()).await.expect("connected"));
}

/// `host` is what the certificate is compared with, `hostaddr` where the server is.
fn by_other_name(mode: &str) -> String {
    let config: coordinator_postgres::tokio_postgres::Config = url().parse().expect("a URL");
    format!(
        "host=db.example.invalid hostaddr=127.0.0.1 port={} user={} password={} dbname={} sslmode={mode} sslrootcert={}",
        port(&url()),
        config.get_user().expect("a role"),
        String::from_utf8_lossy(config.get_password().expect("a password")),
        config.get_dbname().expect("a database"),
        authority()
    )
}

async fn verify_full_refuses_a_host_of_another_name() {
    let building = PostgresCoordinator::builder(&by_other_name("verify-full")).expect("a configuration");
    let error = building.connect().await.expect_err("another name");
    assert!(error.to_string().contains("sslmode, sslrootcert and the host name"), "{error}");
}

async fn verify_ca_takes_a_host_of_another_name() {
    let building = PostgresCoordinator::builder(&by_other_name("verify-ca")).expect("a configuration");
    building.connect().await.expect("the chain is right");
    let building = PostgresCoordinator::builder(&by_other_name("require")).expect("a configuration");
    building.tls_mode(TlsMode::Unverified).connect().await.expect("nothing is checked");
}

async fn verify_ca_and_verify_full_refuse_an_unknown_authority() {
    let other = other_authority();
    for mode in ["verify-ca", "verify-full"] {
        let parameters = format!("sslmode={mode}&sslrootcert={}", other.display());
        let error = is_encrypted(&parameters, &url()).await.expect_err("an unknown authority");
        assert!(error.to_string().contains("TLS"), "{error}");
    }
    drop_authority(&other);
}

async fn roots_that_cannot_be_read_are_refused() {
    let error = is_encrypted("sslmode=verify-full&sslrootcert=/no/such/file", &url()).await.expect_err("no roots");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("/no/such/file"), "{error}");
}

async fn a_server_without_tls_is_refused_where_it_is_required() {
    let server = crate::kit::server::Server::start().await;
    for mode in ["require", "verify-ca", "verify-full"] {
        let parameters = format!("sslmode={mode}&sslrootcert={}", authority());
        let building = builder(&with(&server.url(), &parameters), "n");
        let error = building.connect().await.expect_err("it speaks no TLS");
        assert!(error.to_string().contains("TLS"), "{error}");
    }
    builder(&with(&server.url(), "sslmode=prefer"), "n").connect().await.expect("in the clear, then");
}
