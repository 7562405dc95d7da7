//! Links that the kernel knows nothing of: packets vanish, in a network of the test's own.

use crate::kit::belief;
use crate::kit::environment::{at, builder, primary, scope, unique};
use crate::kit::server::Server;
use coordinator_postgres::{ErasureCoordinator, Lease, Mode, PostgresCoordinator};
use coordinator_testkit::{Moment, measured, until};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

crate::trials![a_cut_instance_is_dead_to_the_server_in_time_whatever_was_under_way];

const DEAD: Duration = Duration::from_secs(5);
/// A waiting session has tighter settings of its own: an answer that can't be delivered ends it.
const GRANTED_WAITER: Duration = Duration::from_secs(6);
/// Until there is an answer, at the end of a slice at the latest.
const QUEUED_WAITER: Duration = Duration::from_secs(8);

async fn a_cut_instance_is_dead_to_the_server_in_time_whatever_was_under_way() {
    let mut unshare = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        unshare.args(["--map-current-user", "--keep-caps"]);
    }
    unshare.arg("--net").arg(std::env::current_exe().expect("this program")).arg("--in-own-network");
    let status = unshare.status().expect("unshare (util-linux) runs");
    assert!(
        status.success(),
        "{status}; if it says why above: a network of one's own takes root, or the kernel's leave to make user \
         namespaces (sysctl kernel.unprivileged_userns_clone=1), and the programs ip (iproute2) and nft (nftables)"
    );
}

/// The test itself, in a network where only it lives: the server answers on all of 127.0.0.0/8, one address a link.
pub(crate) async fn in_own_network() {
    run("ip", "link set lo up");
    run("nft", "add table ip links");
    run("nft", "add chain ip links arriving { type filter hook input priority 0 ; }");
    let server = Server::start().await;
    let server = &server;
    tokio::join!(
        holder(server, 11, "an idle holder", &[Way::Requests, Way::Replies], &[]),
        holder(server, 12, "a holder with a reply under way", &[Way::Replies], &[Way::Requests]),
        holder(server, 13, "a holder whose requests vanish", &[Way::Requests], &[]),
        holder(server, 14, "a holder whose replies vanish", &[Way::Replies], &[]),
        granted_waiter(server, 15),
        queued_waiter(server, 16),
    );
}

#[derive(Clone, Copy)]
enum Way {
    Requests,
    Replies,
}

fn cut(link: u8, ways: &[Way]) {
    for way in ways {
        let address = match way {
            Way::Requests => "daddr",
            Way::Replies => "saddr",
        };
        run("nft", &format!("add rule ip links arriving ip {address} 127.0.0.{link} drop"));
    }
}

fn run(program: &str, arguments: &str) {
    // Where the user is not root, their folder is often not among the places to look.
    let places = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).args(arguments.split(' ')).env("PATH", places).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

async fn instance(server: &Server, namespace: &str, link: u8) -> Arc<PostgresCoordinator> {
    let way = at(&server.url(), &format!("127.0.0.{link}:{}", server.port()));
    let building = builder(&way, namespace).instance(unique("cut")).dead_peer_timeout(DEAD);
    Arc::new(building.connect().await.expect("the server is there"))
}

async fn acquire(coordinator: &PostgresCoordinator) -> Lease {
    coordinator.acquire(&scope("s"), Mode::Exclusive).await.expect("granted")
}

/// A holder's link is cut one way or both, then, with a reply that was sent on its way, the rest.
async fn holder(server: &Server, link: u8, what: &str, first: &[Way], then: &[Way]) {
    let namespace = unique("cut");
    let (holder, next) = (instance(server, &namespace, link).await, instance(server, &namespace, 1).await);
    let lease = Arc::new(acquire(&holder).await);
    let waiting = crate::crash::in_line(&next, "s").await;
    let observer = server.client().await;
    let session = primary(&observer, holder.instance()).await;
    let (believed, lost) = (belief::watch(&lease), lease.lost());
    let cut_at = Moment::now();
    cut(link, first);
    if !then.is_empty() {
        let answered = "SELECT state_change > now() FROM pg_stat_activity WHERE pid = $1";
        let transaction = observer.batch_execute("BEGIN").await;
        transaction.expect("now() stands still from here on");
        let asking = Arc::clone(&lease);
        drop(tokio::spawn(async move { asking.verify(Duration::ZERO).await.is_ok() }));
        until(DEAD, "the server has answered", async || {
            observer.batch_execute("SELECT pg_stat_clear_snapshot()").await.expect("readable");
            observer.query_one(answered, &[&session]).await.expect("readable").get(0)
        })
        .await;
        cut(link, then);
    }
    lost.await;
    let told = cut_at.elapsed();
    let (_other, granted) = crate::crash::granted(waiting, 3 * DEAD).await;
    let believed = believed.join().expect("no panic");
    measured(&format!("{what} is cut: until the loss was told"), &mut [told]);
    measured(&format!("{what} is cut: until the next grant"), &mut [granted.since(cut_at)]);
    assert!(believed < granted, "{what}: two believed for {:?}", believed.since(granted));
    assert!(granted.since(cut_at) <= DEAD, "{what}: {:?}", granted.since(cut_at));
}

/// The server grants the key to an instance that it can't reach any more.
async fn granted_waiter(server: &Server, link: u8) {
    let namespace = unique("cut");
    let (holder, waiter) = (instance(server, &namespace, 1).await, instance(server, &namespace, link).await);
    let next = instance(server, &namespace, 1).await;
    let lease = acquire(&holder).await;
    let vanishing = crate::crash::in_line(&waiter, "s").await;
    let waiting = crate::crash::in_line(&next, "s").await;
    cut(link, &[Way::Requests, Way::Replies]);
    let cut_at = Moment::now();
    lease.release().await.expect("held to the end");
    let (_other, granted) = crate::crash::granted(waiting, 3 * GRANTED_WAITER).await;
    measured("a waiter is cut and then granted: until the next grant", &mut [granted.since(cut_at)]);
    assert!(granted.since(cut_at) <= GRANTED_WAITER, "{:?}", granted.since(cut_at));
    vanishing.abort();
}

/// Nobody releases: the server must find out by itself that the waiter is gone.
async fn queued_waiter(server: &Server, link: u8) {
    let namespace = unique("cut");
    let (holder, waiter) = (instance(server, &namespace, 1).await, instance(server, &namespace, link).await);
    let _lease = acquire(&holder).await;
    let vanishing = crate::crash::in_line(&waiter, "s").await;
    cut(link, &[Way::Requests, Way::Replies]);
    let took = until(3 * QUEUED_WAITER, "it left the queue", async || {
        holder.inspect(&scope("s")).await.expect("the server is there").waiters.is_empty()
    })
    .await;
    measured("a waiter is cut: until it left the queue", &mut [took]);
    assert!(took <= QUEUED_WAITER, "{took:?}");
    vanishing.abort();
}
