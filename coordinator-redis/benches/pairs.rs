//! Acquire + release on Redis against two bare script calls, and 1,000 tasks on 1,000 scopes.
//!
//! Contenders of the uncontended pair are interleaved one by one, so that a noisy machine slows all of them alike:
//! the ratios count, not the times. Needs `COORDINATOR_TEST_REDIS_URL`: run it under `scripts/with-servers`.

use coordinator_core::Upkeep;
use coordinator_redis::{ErasureCoordinator, Mode, RedisCoordinator, Scope};
use criterion::{Criterion, criterion_group, criterion_main};
use redis::aio::MultiplexedConnection;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const ROUNDS: usize = 3_000;

fn url() -> String {
    std::env::var("COORDINATOR_TEST_REDIS_URL").expect("run under scripts/with-servers: it starts a server")
}

/// The usual lock by one key, of which one can't do less: set it if it is not there, delete it if it is one's own.
const SET: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 30000) then return 1 end return 0";
const DELETE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/// A plain client whose connection is driven by `driver`, and the hashes of two scripts.
struct Floor {
    connection: MultiplexedConnection,
    hashes: [String; 2],
    key: String,
}

async fn floor(driver: &Upkeep, key: &str) -> Floor {
    let connect = async {
        let client = redis::Client::open(url()).expect("a URL");
        let mut connection = client.get_multiplexed_async_connection().await.expect("the server is there");
        let mut hashes = Vec::new();
        for script in [SET, DELETE] {
            let mut load = redis::cmd("SCRIPT");
            hashes.push(load.arg("LOAD").arg(script).query_async(&mut connection).await.expect("loaded"));
        }
        (connection, hashes)
    };
    let (connection, hashes) = driver.spawn(connect).await.expect("no panic");
    Floor { connection, hashes: hashes.try_into().expect("two"), key: key.to_owned() }
}

async fn two_round_trips(floor: &mut Floor) {
    for hash in &floor.hashes {
        let mut run = redis::cmd("EVALSHA");
        run.arg(hash).arg(1).arg(&floor.key).arg("own");
        let answer: i64 = run.query_async(&mut floor.connection).await.expect("an answer");
        assert_eq!(answer, 1);
    }
}

async fn pair(coordinator: &RedisCoordinator, scope: &Scope) {
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
        let apart = RedisCoordinator::connect(&url()).await.expect("connects");
        let same = RedisCoordinator::builder(&url()).expect("a URL").runtime(here.clone()).connect().await;
        let same = same.expect("connects");
        // On the very thread that ours uses: on two cores it counts which of them a thread happens to share.
        let mut floor_apart = floor(&Upkeep::Process, "bench: apart").await;
        let mut floor_same = floor(&Upkeep::On(here), "bench: same").await;
        let scope = Scope::new("bench").expect("valid");
        let scope_same = Scope::new("bench, same runtime").expect("valid");
        for round in 0..ROUNDS + ROUNDS / 10 {
            if round == ROUNDS / 10 {
                times = Default::default(); // warm
            }
            timed(&mut times[0], two_round_trips(&mut floor_apart)).await;
            timed(&mut times[1], pair(&apart, &scope)).await;
            timed(&mut times[2], two_round_trips(&mut floor_same)).await;
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
    let coordinator = runtime.block_on(async { Arc::new(RedisCoordinator::connect(&url()).await.expect("connects")) });
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
