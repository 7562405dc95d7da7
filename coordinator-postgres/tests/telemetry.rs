//! What the outside gets to see: digests, never names or passwords; and warnings where a user must act.

mod support;

use coordinator_postgres::{
    DigestKey, ErasureCoordinator, ErasureCoordinatorExt, Error, ErrorKind, Mode, PostgresBuilder, PostgresCoordinator,
    Scope, under_lock,
};
use std::error::Error as _;
use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use support::{Deployment, Server, random, scope, soon, until, variable, waiters, waits};
use tracing_subscriber::fmt::MakeWriter;

/// Everything that was told to the process's subscriber, which has to be global: the sessions have threads of their own.
#[derive(Clone, Default)]
struct Capture(Arc<Mutex<Vec<u8>>>);

impl Capture {
    fn install() -> &'static Self {
        static CAPTURE: OnceLock<Capture> = OnceLock::new();
        CAPTURE.get_or_init(|| {
            let capture = Self::default();
            let subscriber = tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_ansi(false);
            subscriber.with_writer(capture.clone()).init();
            capture
        })
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().expect("not poisoned")).into_owned()
    }
}

impl io::Write for Capture {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Capture {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// All that a log line made of the error could say.
fn chain(error: &Error) -> String {
    let mut said = format!("{error} {error:?} {error:#?}");
    let mut source = error.source();
    while let Some(cause) = source {
        write!(said, " {cause} {cause:?}").expect("a string");
        source = cause.source();
    }
    said
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subjects_name_is_nowhere_to_be_seen() {
    let (capture, server) = (Capture::install(), Server::connect().await);
    let deployment = Deployment::new();
    let name = format!("Erika Mustermann {}", random());
    let subject = Scope::new(&name).expect("a valid name");
    let (one, two) = (deployment.connect("one").await, deployment.connect("two").await);
    let builder = deployment.builder("one");
    let mut said = format!("{builder:?} {one:?} {subject:?} {subject}");
    // Granted, refused, contended, given up, handed on, fenced, lost, shut down.
    let lease = soon(&one, &subject, Mode::Exclusive).await;
    assert!(two.try_acquire(&subject, Mode::Shared).await.expect("an answer").is_none());
    let limit = Duration::from_millis(20);
    assert!(two.acquire_within(&subject, Mode::Exclusive, limit).await.expect("an answer").is_none());
    let waiter = waits(&two, subject, Mode::Exclusive);
    waiters(&one, &subject, 1).await;
    write!(said, "{lease:?} {:?}", one.inspect(&subject).await.expect("an answer")).expect("a string");
    lease.fence().await.expect("a token");
    server.terminate(server.pids(deployment.key(&subject), true).await[0]).await;
    lease.lost().await;
    said.push_str(&chain(&lease.release().await.expect_err("lost")));
    let (lease, _) = waiter.await.expect("served");
    let twice = [(subject, Mode::Shared), (subject, Mode::Exclusive)];
    said.push_str(&chain(&two.acquire_all(&twice).await.expect_err("named twice")));
    let other = scope("other");
    let again = under_lock(&*one, &other, Mode::Shared, async |_| {
        under_lock(&*one, &other, Mode::Shared, async |_| Ok::<_, Error>(())).await
    });
    said.push_str(&chain(&again.await.expect_err("reentrant")));
    write!(said, "{:?}", two.shutdown(Duration::from_millis(10)).await).expect("a string");
    said.push_str(&chain(&lease.verify(Duration::ZERO).await.expect_err("lost")));
    said.push_str(&chain(&Scope::new(format!("{name}\n")).expect_err("a control character")));
    said.push_str(&chain(&Scope::new(name.repeat(40)).expect_err("too long")));
    let told = capture.text();
    assert!(told.contains(&subject.to_string()) && told.contains("WARN"), "the capture works");
    for text in [&told, &said] {
        for part in ["Erika", "Mustermann", &name[17..]] {
            assert!(!text.contains(part), "{part} is told");
        }
    }
    // Nor does the server hear it.
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid()
        AND (query ILIKE '%mustermann%' OR application_name ILIKE '%mustermann%')";
    assert_eq!(server.0.query_one(sql, &[]).await.expect("an answer").get::<_, i64>(0), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_digest_key_the_plain_digest_is_not_told_either() {
    let (capture, deployment) = (Capture::install(), Deployment::new());
    let (subject, key) = (scope(&random()), DigestKey::new(&[7; 32]).expect("long enough"));
    let server = Server::connect().await;
    let builder = deployment.builder("one").digest_key(key.clone());
    let one = Arc::new(builder.connect().await.expect("connected"));
    let lease = soon(&one, &subject, Mode::Exclusive).await;
    let sql = "SELECT (classid::bigint << 32) | objid::bigint FROM pg_locks WHERE locktype = 'advisory'";
    let locks: Vec<i64> = server.0.query(sql, &[]).await.expect("an answer").iter().map(|row| row.get(0)).collect();
    assert!(locks.contains(&deployment.key(&subject.keyed(&key))) && !locks.contains(&deployment.key(&subject)));
    let limit = Duration::from_millis(20);
    assert!(one.acquire_within(&subject, Mode::Shared, limit).await.expect("an answer").is_none());
    let left = one.shutdown(Duration::ZERO).await.expect("shut down").left;
    assert_eq!(left[0].scope, subject.keyed(&key));
    lease.release().await.expect_err("lost");
    until!("the keyed digest is told", capture.text().contains(&subject.keyed(&key).to_string()));
    assert!(!capture.text().contains(&subject.to_string()));
    assert!(!capture.text().contains(&deployment.key(&subject).to_string()));
    assert!(!format!("{key:?}").contains('7'));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_is_nowhere_to_be_seen() {
    let (capture, secret) = (Capture::install(), "hunter2-geheim");
    let right = variable("COORDINATOR_TEST_POSTGRES_URL");
    let (role, address) = right.rsplit_once('@').expect("a password");
    let password = role.rsplit_once(':').expect("a password").1;
    // Refused by the server.
    let wrong = format!("postgres://coordinator:{secret}@{address}");
    let error = PostgresCoordinator::connect(&wrong).await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let mut said = chain(&error);
    assert!(said.contains("password"), "the reason is told: {said}");
    let builder = PostgresCoordinator::builder(&wrong).expect("a URL");
    write!(said, "{builder:?} {builder:#?}").expect("a string");
    // Not even parsed, or not reached.
    for url in [
        format!("postgres://coordinator:{secret}@127.0.0.1:none/x"),
        format!("postgres://coordinator:{secret}@127.0.0.1/x?bogus=1"),
        format!("postgres://coordinator:{secret}%zz@127.0.0.1:99999/x"),
        format!("postgres://coordinator:{secret}"),
        format!("host=127.0.0.1 port=x password={secret}"),
        format!("host=127.0.0.1 password='{secret}"),
        format!("host=127.0.0.1 password={secret} bogus=1"),
        format!("http://coordinator:{secret}@127.0.0.1/x"),
        secret.to_owned(),
    ] {
        match PostgresCoordinator::builder(&url) {
            Err(error) => said.push_str(&chain(&error)),
            Ok(builder) => write!(said, "{builder:?}").expect("a string"),
        }
    }
    let closed = format!("postgres://coordinator:{secret}@127.0.0.1:1/x");
    said.push_str(&chain(&PostgresCoordinator::connect(&closed).await.expect_err("nobody listens")));
    let mut config = coordinator_postgres::deadpool_postgres::Config::new();
    config.url = Some(wrong);
    let pooled = PostgresBuilder::from_deadpool(&config).expect("complete").connect().await;
    said.push_str(&chain(&pooled.expect_err("refused")));
    // And of one that works.
    let one = Deployment::new().connect("one").await;
    write!(said, "{one:?}").expect("a string");
    drop(soon(&one, &scope("subject"), Mode::Shared).await);
    for text in [&said, &capture.text()] {
        assert!(!text.contains(secret) && !text.contains("hunter2") && !text.contains(password), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_with_other_keys_is_warned_about() {
    let (capture, first, second) = (Capture::install(), Deployment::new(), Deployment::new());
    let peer = first.connect("peer").await;
    let _same = first.connect("same").await;
    let _other = second.connect("other").await;
    let said = capture.text();
    let warnings: Vec<_> = said
        .lines()
        .filter(|line| {
            line.contains("WARN") && line.contains("do not exclude each other") && line.contains(peer.instance())
        })
        .collect();
    assert!(!warnings.is_empty(), "nothing was said");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_is_told_as_a_warning_with_the_digest() {
    let (capture, deployment, server) = (Capture::install(), Deployment::new(), Server::connect().await);
    let (one, subject) = (deployment.connect("one").await, scope(&random()));
    let lease = soon(&one, &subject, Mode::Exclusive).await;
    server.terminate(server.pids(deployment.key(&subject), true).await[0]).await;
    lease.lost().await;
    until!("it is told", {
        let digest = subject.to_string();
        capture.text().lines().any(|line| line.contains("WARN") && line.contains("lost") && line.contains(&digest))
    });
}
