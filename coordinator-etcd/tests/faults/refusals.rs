//! What can't be the lock's server, or is configured wrong, is refused with the remedy.

use crate::support::Deployment;
use crate::support::cluster::Cluster;
use coordinator_etcd::{ErrorKind, EtcdBuilder, EtcdCoordinator};
use std::time::{Duration, Instant};

async fn refused(builder: EtcdBuilder, kind: ErrorKind, says: &str) {
    let error = builder.connect().await.expect_err("refused");
    assert_eq!(error.kind(), kind, "{error:?}");
    assert!(error.to_string().contains(says), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endpoints_of_two_clusters_are_refused() {
    let (one, two) = (Cluster::start(1).await, Cluster::start(1).await);
    let both = Deployment::at(format!("{},{}", one.endpoints(), two.endpoints()));
    refused(both.builder("x"), ErrorKind::Invalid, "another cluster").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_are_away_are_told_in_time_and_one_of_several_is_enough() {
    let mut cluster = Cluster::start(1).await;
    let there = cluster.endpoints();
    let away = "http://127.0.0.1:9";
    let one = Deployment::at(format!("{away},{there}")).builder("x").connect().await.expect("one is there");
    drop(one);
    cluster.kill(0);
    let begin = Instant::now();
    let builder = Deployment::at(format!("{away},{there}")).builder("x").connect_timeout(Duration::from_secs(2));
    refused(builder, ErrorKind::Unavailable, "").await;
    assert!(begin.elapsed() < Duration::from_secs(4), "{:?}", begin.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_out_of_range_is_refused_before_anything_is_asked() {
    let deployment = Deployment::at("http://127.0.0.1:9".into());
    let builder = || deployment.builder("x");
    for (builder, says) in [
        (builder().ttl(Duration::from_secs(4)), "ttl"),
        (builder().ttl(Duration::from_secs(90_000)), "ttl"),
        (builder().most_scopes(0), "most_scopes"),
        (builder().instance(""), "instance"),
        (builder().instance("x\n"), "instance"),
        (builder().namespace(""), "namespace"),
        (builder().namespace("a/locks/b"), "locks"),
        (builder().tls(coordinator_etcd::etcd_client::TlsOptions::new()), "https"),
        (Deployment::at("http://a:1,https://b:2".into()).builder("x"), "all https"),
    ] {
        refused(builder, ErrorKind::Invalid, says).await;
    }
    for bad in ["", "a:1", "ftp://a:1", "http://", "http://u:secret@a:1", "http://a:1,"] {
        let error = EtcdCoordinator::builder(bad).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{bad}");
        assert!(!error.to_string().contains("secret"));
    }
}
