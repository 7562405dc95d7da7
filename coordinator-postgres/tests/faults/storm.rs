//! Statements and sessions that are ended all the time, by somebody who may.

use crate::kit::environment::{admin_url, builder, client, scope, unique, url};
use coordinator_postgres::tokio_postgres::Client;
use coordinator_postgres::{
    ErasureCoordinator, ErasureCoordinatorExt, Error, ErrorKind, Lease, Mode, PostgresCoordinator,
};
use coordinator_testkit::until;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

crate::trials![
    cancels_at_any_moment_break_no_exclusion_and_leave_nothing_held,
    terminations_at_any_moment_leave_nothing_held,
];

const SCOPES: usize = 3;
/// How long a storm lasts at least, and how much has to be done in it, however busy the machine is.
const WHILE: Duration = Duration::from_secs(4);
const ENOUGH: u32 = 100;
const AT_MOST: Duration = Duration::from_secs(60);

/// Who is in which scope, and what became of the tasks' requests.
#[derive(Default)]
struct Books {
    inside: [Mutex<Option<Arc<Lease>>>; SCOPES],
    granted: AtomicU32,
    failed: AtomicU32,
    lost: AtomicU32,
}

impl Books {
    fn enter(&self, i: usize, lease: &Arc<Lease>, is_exact: bool) {
        let before = self.inside[i].lock().expect("nobody panicked").replace(Arc::clone(lease));
        if is_exact && let Some(before) = before {
            assert!(before.ensure_live().is_err() || lease.ensure_live().is_err(), "two are in scope {i}");
        }
        self.granted.fetch_add(1, Ordering::Relaxed);
    }

    fn leave(&self, i: usize, lease: &Arc<Lease>) {
        let mut inside = self.inside[i].lock().expect("nobody panicked");
        if inside.as_ref().is_some_and(|other| Arc::ptr_eq(other, lease)) {
            *inside = None;
        }
    }

    fn failed(&self, error: &Error) {
        match error.kind() {
            ErrorKind::Lost(_) => self.lost.fetch_add(1, Ordering::Relaxed),
            ErrorKind::Unavailable => self.failed.fetch_add(1, Ordering::Relaxed),
            _ => panic!("{error:?}"),
        };
    }
}

/// One task: takes scopes in every way, some with a limit that passes.
async fn hammer(coordinator: Arc<PostgresCoordinator>, books: Arc<Books>, task: usize, is_exact: bool) {
    let begin = Instant::now();
    for round in 0.. {
        if begin.elapsed() > WHILE && books.granted.load(Ordering::Relaxed) >= ENOUGH {
            return;
        }
        assert!(begin.elapsed() < AT_MOST, "too few are granted");
        let i = (task + round) % SCOPES;
        let wanted = scope(&format!("s{i}"));
        let limit = Duration::from_millis([3, 20, 1_000][round % 3]);
        let lease = match round % 4 {
            0 => coordinator.try_acquire(&wanted, Mode::Exclusive).await,
            _ => coordinator.acquire_within(&wanted, Mode::Exclusive, limit).await,
        };
        let lease = match lease {
            Ok(Some(lease)) => Arc::new(lease),
            Ok(None) => continue,
            Err(error) => {
                books.failed(&error);
                continue;
            }
        };
        books.enter(i, &lease, is_exact);
        let proof = if round % 2 == 0 { lease.verify(Duration::ZERO).await } else { lease.fence().await.map(drop) };
        if let Err(error) = proof {
            books.failed(&error);
        }
        books.leave(i, &lease);
        if let Some(lease) = Arc::into_inner(lease)
            && let Err(error) = lease.release().await
        {
            books.failed(&error);
        }
    }
}

/// Two instances at work, while `strike` is called again and again with their names' common part.
///
/// `is_exact`: no two believe at once, as where the server ends no session by itself.
async fn weathers(is_exact: bool, strike: impl AsyncFn(&Client, &str)) {
    let (name, books) = (unique("storm"), Arc::new(Books::default()));
    let mut instances = Vec::new();
    for part in ["a", "b"] {
        let building = builder(&url(), &name).instance(format!("{name}{part}"));
        instances.push(Arc::new(building.connect().await.expect("the server is there")));
    }
    let mut tasks = tokio::task::JoinSet::new();
    for (i, instance) in (0..12).zip(instances.iter().cycle()) {
        tasks.spawn(hammer(Arc::clone(instance), Arc::clone(&books), i, is_exact));
    }
    let admin = client(&admin_url()).await;
    while !tasks.is_empty() {
        tokio::select! {
            done = tasks.join_next() => done.expect("a task").expect("no panic"),
            () = strike(&admin, &name) => {}
        }
    }
    for instance in &instances {
        for i in 0..SCOPES {
            let wanted = scope(&format!("s{i}"));
            let is_served = async || match instance.acquire(&wanted, Mode::Exclusive).await {
                Ok(lease) => lease.release().await.is_ok(),
                Err(error) => {
                    assert!(error.is_retryable(), "{error:?}");
                    false
                }
            };
            until(Duration::from_secs(10), "the scope is free after the storm", is_served).await;
        }
        until(Duration::from_secs(5), "the instance keeps nothing", async || instance.scopes() == 0).await;
    }
    let held = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE locktype = 'advisory' AND application_name LIKE 'coordinator ________ ' || $1 || '_'";
    until(Duration::from_secs(5), "the server keeps two identities and nothing else", async || {
        admin.query_one(held, &[&name]).await.expect("readable").get::<_, i64>(0) == 2
    })
    .await;
    let [granted, failed, lost] = [&books.granted, &books.failed, &books.lost].map(|n| n.load(Ordering::Relaxed));
    println!("measured: in a storm {granted} granted, {failed} failed, {lost} lost");
}

async fn cancels_at_any_moment_break_no_exclusion_and_leave_nothing_held() {
    weathers(true, async |admin, name| {
        let sql = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
            WHERE application_name LIKE 'coordinator ________ ' || $1 || '_' AND state = 'active'";
        admin.query(sql, &[&name]).await.expect("allowed");
    })
    .await;
}

async fn terminations_at_any_moment_leave_nothing_held() {
    weathers(false, async |admin, name| {
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE application_name LIKE 'coordinator ________ ' || $1 || '_' ORDER BY random() LIMIT 1";
        admin.query(sql, &[&name]).await.expect("allowed");
        tokio::time::sleep(Duration::from_millis(60)).await; // else no lease would ever be granted
    })
    .await;
}
