//! The program of an instance in a process of its own: does what the lines on its input say, and answers by lines.

use super::belief;
use super::environment::{builder, client, scope};
use coordinator_postgres::{ErasureCoordinator, Lease, Mode, PostgresBuilder, PostgresCoordinator, admit};
use coordinator_testkit::Moment;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};

/// `url namespace name option=value…`
pub(crate) async fn run(arguments: &[String]) {
    let [url, namespace, name, options @ ..] = arguments else { panic!("url namespace name") };
    let mut building = builder(url, namespace).instance(name);
    for option in options {
        building = with_option(building, option);
    }
    let coordinator = Arc::new(building.connect().await.expect("the server is there"));
    println!("ready");
    let mut leases: HashMap<String, Arc<Lease>> = HashMap::new();
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["acquire", name, mode] => {
                let lease = Arc::new(coordinator.acquire(&scope(name), mode_of(mode)).await.expect("granted"));
                println!("granted {}", Moment::now());
                watch(&lease);
                leases.insert(name.to_owned(), lease);
            }
            ["queue", name, mode] => {
                drop(tokio::spawn(queue(Arc::clone(&coordinator), name.to_owned(), mode_of(mode))));
            }
            ["inspect", name] => {
                println!("inspecting");
                let _ = coordinator.inspect(&scope(name)).await;
            }
            ["live", name] => println!("live {}", leases[name].ensure_live().is_ok()),
            ["fence", name] => println!("token {}", leases[name].fence().await.expect("held").get()),
            ["guarded", name, token] => println!("admitted {}", guarded(url, &leases[name], token).await),
            ["release", name] => {
                let mut shared = leases.remove(name).expect("a lease");
                let lease = loop {
                    match Arc::try_unwrap(shared) {
                        Ok(lease) => break lease,
                        Err(looked_at) => shared = looked_at,
                    }
                    std::thread::yield_now();
                };
                println!("released {:?}", lease.release().await.map_err(|error| error.kind()));
            }
            _ => panic!("{line}?"),
        }
    }
}

fn with_option(building: PostgresBuilder, option: &str) -> PostgresBuilder {
    let seconds = |value: &str| Duration::from_secs(value.parse().expect("seconds"));
    match option.split_once('=') {
        Some(("dead", value)) => building.dead_peer_timeout(seconds(value)),
        Some(("silent", value)) => building.release_when_silent_for(seconds(value)),
        _ => panic!("{option}?"),
    }
}

fn mode_of(word: &str) -> Mode {
    if word == "shared" { Mode::Shared } else { Mode::Exclusive }
}

/// Says when the loss was told, and when the lease was last believed in.
fn watch(lease: &Arc<Lease>) {
    let (lost, believed) = (lease.lost(), belief::watch(lease));
    drop(tokio::spawn(async move {
        let reason = lost.await;
        println!("lost {} {reason:?}", Moment::now());
    }));
    drop(std::thread::spawn(move || {
        let believed = believed.join().expect("no panic");
        println!("believed {believed}");
    }));
}

async fn queue(coordinator: Arc<PostgresCoordinator>, name: String, mode: Mode) {
    let lease = coordinator.acquire(&scope(&name), mode).await.expect("granted");
    println!("served {}", Moment::now());
    lease.release().await.expect("held to the end");
}

/// The write of a holder that trusts its token alone, as one that sent it before it was frozen.
async fn guarded(url: &str, lease: &Lease, token: &str) -> bool {
    let mut store = client(url).await;
    let transaction = store.transaction().await.expect("the store is there");
    let token = coordinator_postgres::FencingToken::new(token.parse().expect("a number"));
    let admitted = admit(&transaction, lease.scope(), lease.mode(), token).await.expect("the store is there");
    transaction.commit().await.expect("the store is there");
    admitted
}
