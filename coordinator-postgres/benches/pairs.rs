//! Acquire + release on PostgreSQL against two prepared `SELECT 1`, and 1,000 tasks on 1,000 scopes.
//!
//! Contenders of the uncontended pair are interleaved one by one, so that a noisy machine slows all of them alike:
//! the ratios count, not the times. Needs `COORDINATOR_TEST_POSTGRES_URL`: run it under `scripts/with-servers`.

use coordinator_core::Upkeep;
use coordinator_postgres::{ErasureCoordinator, Mode, PostgresCoordinator, Scope};
use criterion::{Criterion, criterion_group, criterion_main};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, Statement};

const ROUNDS: usize = 3_000;

/// Without TLS, which the plain client of the floor does not do either.
fn url() -> String {
    let url = std::env::var("COORDINATOR_TEST_POSTGRES_URL");
    format!("{}?sslmode=disable", url.expect("run under scripts/with-servers: it starts a server"))
}

/// A plain client whose connection is driven by `driver`, and the statement that costs one round trip.
async fn floor(driver: &Upkeep) -> (Client, Statement) {
    let connect = async { tokio_postgres::connect(&url(), NoTls).await.expect("the server is there") };
    let (client, connection) = driver.spawn(connect).await.expect("no panic");
    drop(driver.spawn(connection));
    let statement = client.prepare("SELECT 1").await.expect("a statement");
    (client, statement)
}

async fn two_round_trips((client, statement): &(Client, Statement)) {
    for _ in 0..2 {
        client.query_one(statement, &[]).await.expect("a row");
    }
}

async fn pair(coordinator: &PostgresCoordinator, scope: &Scope) {
    let lease = coordinator.acquire(scope, Mode::Exclusive).await.expect("a lease");
    lease.release().await.expect("released");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

async fn timed(times: &mut Vec<Duration>, work: impl Future<Output = ()>) {
    let begin = Instant::now();
    work.await;
    times.push(begin.elapsed());
}

/// The ratios that count: medians of contenders that took turns.
fn uncontended(_: &mut Criterion) {
    let caller = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut times: [Vec<Duration>; 4] = Default::default();
    caller.block_on(async {
        let here = tokio::runtime::Handle::current();
        let apart = PostgresCoordinator::connect(&url()).await.expect("connects");
        let same = PostgresCoordinator::builder(&url()).expect("a URL").runtime(here.clone()).connect().await;
        let same = same.expect("connects");
        // On the very thread that ours uses: on two cores it counts which of them a thread happens to share.
        let (floor_apart, floor_same) = (floor(&Upkeep::Process).await, floor(&Upkeep::On(here)).await);
        let scope = Scope::new("bench").expect("valid");
        let scope_same = Scope::new("bench, same runtime").expect("valid");
        for round in 0..ROUNDS + ROUNDS / 10 {
            if round == ROUNDS / 10 {
                times = Default::default(); // warm
            }
            timed(&mut times[0], two_round_trips(&floor_apart)).await;
            timed(&mut times[1], pair(&apart, &scope)).await;
            timed(&mut times[2], two_round_trips(&floor_same)).await;
            timed(&mut times[3], pair(&same, &scope_same)).await;
        }
    });
    let [floor_apart, apart, floor_same, same] = times.map(median);
    let ratio = |ours: Duration, floor: Duration| ours.as_secs_f64() / floor.as_secs_f64();
    println!("uncontended pair, p50 of {ROUNDS}, interleaved");
    println!("  own thread:   {apart:?} against {floor_apart:?}: {:.2}", ratio(apart, floor_apart));
    println!("  same runtime: {same:?} against {floor_same:?}: {:.2}", ratio(same, floor_same));
}

fn many_scopes(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let coordinator = runtime.block_on(async {
        let builder = PostgresCoordinator::builder(&url()).expect("a URL").most_scopes(1_000);
        Arc::new(builder.connect().await.expect("connects"))
    });
    let scopes: Vec<Scope> = (0..1_000).map(|i| Scope::new(format!("scope {i}")).expect("valid")).collect();
    let mut group = criterion.benchmark_group("1,000 tasks on 1,000 scopes");
    group.throughput(criterion::Throughput::Elements(1_000));
    group.bench_function("acquire + release", |bencher| {
        bencher.iter_custom(|rounds| {
            runtime.block_on(async {
                let begin = Instant::now();
                let mut tasks = tokio::task::JoinSet::new();
                for scope in &scopes {
                    let (coordinator, scope) = (Arc::clone(&coordinator), *scope);
                    tasks.spawn(async move {
                        for _ in 0..rounds {
                            pair(&coordinator, &scope).await;
                        }
                    });
                }
                while let Some(done) = tasks.join_next().await {
                    done.expect("no panic");
                }
                begin.elapsed()
            })
        });
    });
    group.finish();
}

criterion_group!(benches, uncontended, many_scopes);
criterion_main!(benches);
