//! Acquire + release on etcd against two raw transactions, and 1,000 tasks on 1,000 scopes.
//!
//! Contenders of the uncontended pair are interleaved one by one, so that a noisy machine slows all of them alike: the
//! ratios count, not the times. Starts a server of its own from `COORDINATOR_TEST_ETCD`: run it under
//! `scripts/with-servers`.

#[path = "../tests/support/cluster.rs"]
mod cluster;

use cluster::Cluster;
use coordinator_core::Upkeep;
use coordinator_etcd::etcd_client::{Client, Compare, CompareOp, PutOptions, Txn, TxnOp};
use coordinator_etcd::{ErasureCoordinator, EtcdCoordinator, Mode, Scope};
use criterion::{Criterion, criterion_group, criterion_main};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

const ROUNDS: usize = 2_000;

/// A plain client whose connection is driven by `driver`, and a lease for its keys.
#[derive(Clone)]
struct Floor {
    client: Client,
    lease: i64,
}

impl Floor {
    async fn new(endpoints: &str, driver: &Upkeep) -> Self {
        let endpoint = endpoints.to_owned();
        let connect = async move {
            let client = Client::connect([endpoint], None).await.expect("the server is there");
            let lease = client.lease_client().grant(600, None).await.expect("granted").id();
            Self { client, lease }
        };
        driver.spawn(Box::pin(connect)).await.expect("no panic")
    }

    /// What any lock by a key has to send: put it if it is not there, delete it if it is ours.
    async fn pair(&self, key: &str) {
        let absent = Compare::create_revision(key, CompareOp::Equal, 0);
        let put = TxnOp::put(key, "instance", Some(PutOptions::new().with_lease(self.lease)));
        let taken = self.client.kv_client().txn(Txn::new().when([absent]).and_then([put])).await.expect("an answer");
        let created = taken.header().expect("a header").revision();
        let ours = Compare::create_revision(key, CompareOp::Equal, created);
        let freed = self.client.kv_client().txn(Txn::new().when([ours]).and_then([TxnOp::delete(key, None)])).await;
        assert!(taken.succeeded() && freed.expect("an answer").succeeded());
    }
}

async fn pair(coordinator: &EtcdCoordinator, scope: &Scope) {
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
    caller.block_on(Box::pin(async {
        let cluster = Cluster::start(1).await;
        let (here, endpoints) = (tokio::runtime::Handle::current(), cluster.endpoints());
        let apart = EtcdCoordinator::connect(&endpoints).await.expect("connects");
        let same = EtcdCoordinator::builder(&endpoints).expect("valid").runtime(here.clone()).connect().await;
        let same = same.expect("connects");
        // On the very thread that ours uses: on two cores it counts which of them a thread happens to share.
        let floor_apart = Floor::new(&endpoints, &Upkeep::Process).await;
        let floor_same = Floor::new(&endpoints, &Upkeep::On(here)).await;
        let scope = Scope::new("bench").expect("valid");
        let scope_same = Scope::new("bench, same runtime").expect("valid");
        for round in 0..ROUNDS + ROUNDS / 10 {
            if round == ROUNDS / 10 {
                times = Default::default(); // warm
            }
            timed(&mut times[0], floor_apart.pair("floor/apart")).await;
            timed(&mut times[1], pair(&apart, &scope)).await;
            timed(&mut times[2], floor_same.pair("floor/same")).await;
            timed(&mut times[3], pair(&same, &scope_same)).await;
        }
    }));
    let [floor_apart, apart, floor_same, same] = times.map(median);
    let ratio = |ours: Duration, floor: Duration| ours.as_secs_f64() / floor.as_secs_f64();
    println!("uncontended pair, p50 of {ROUNDS}, interleaved");
    println!("  own thread:   {apart:?} against {floor_apart:?}: {:.2}", ratio(apart, floor_apart));
    println!("  same runtime: {same:?} against {floor_same:?}: {:.2}", ratio(same, floor_same));
}

/// A thousand tasks, each `rounds` times.
async fn crowd<F: Future<Output = ()> + Send + 'static>(rounds: u64, work: impl Fn(usize, u64) -> F) -> Duration {
    let begin = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..1_000 {
        tasks.spawn(work(task, rounds));
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no panic");
    }
    begin.elapsed()
}

fn many_scopes(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let (_cluster, coordinator, floor) = runtime.block_on(Box::pin(async {
        let cluster = Cluster::start(1).await;
        let coordinator = EtcdCoordinator::connect(&cluster.endpoints()).await.expect("connects");
        let floor = Floor::new(&cluster.endpoints(), &Upkeep::Process).await;
        (cluster, Arc::new(coordinator), floor)
    }));
    let mut group = criterion.benchmark_group("1,000 tasks on 1,000 scopes");
    group.throughput(criterion::Throughput::Elements(1_000)).sample_size(10);
    group.bench_function("raw transactions", |bencher| {
        bencher.iter_custom(|rounds| {
            runtime.block_on(crowd(rounds, |task, rounds| {
                let floor = floor.clone();
                Box::pin(async move {
                    for _ in 0..rounds {
                        floor.pair(&format!("floor/{task}")).await;
                    }
                })
            }))
        });
    });
    group.bench_function("acquire + release", |bencher| {
        bencher.iter_custom(|rounds| {
            runtime.block_on(crowd(rounds, |task, rounds| {
                let coordinator = Arc::clone(&coordinator);
                let scope = Scope::new(format!("scope {task}")).expect("valid");
                async move {
                    for _ in 0..rounds {
                        pair(&coordinator, &scope).await;
                    }
                }
            }))
        });
    });
    group.finish();
}

criterion_group!(benches, uncontended, many_scopes);
criterion_main!(benches);
