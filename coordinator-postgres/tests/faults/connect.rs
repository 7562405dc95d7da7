//! Where a coordinator connects, and where it refuses to.

use crate::kit::environment::{at, builder, client, coordinator, port, scope, sessions, unique, url, variable};
use crate::kit::pgbouncer::Pgbouncer;
use crate::kit::proxy::{Fault, Side, Trap, link_to, way};
use crate::kit::server::Server;
use crate::kit::warnings::Warnings;
use coordinator_postgres::{
    ErasureCoordinator, Error, ErrorKind, Mode, PostgresBuilder, PostgresCoordinator, deadpool_postgres, tokio_postgres,
};
use coordinator_testkit::{until, within};
use std::net::SocketAddr;
use std::time::Duration;

crate::trials![
    a_pooler_in_transaction_mode_is_refused_with_the_remedy,
    a_pooler_that_swallows_startup_options_is_refused,
    a_pooler_in_session_mode_is_refused_and_told_that_it_would_be_right,
    a_standby_is_refused_and_of_several_hosts_the_primary_is_taken,
    unix_sockets_work,
    every_way_to_configure_makes_a_coordinator,
    a_proxy_that_ends_tcp_is_warned_about,
    a_connect_dropped_at_any_message_leaves_no_session,
];

async fn refusal(building: PostgresBuilder) -> Error {
    let refused = within(Duration::from_secs(10), "an answer", building.connect()).await;
    let error = refused.expect_err("this is no place for locks");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    error
}

async fn is_refused_as_a_pooler(mode: &str, more: &str) -> Error {
    let bouncer = Pgbouncer::start(mode, more).await;
    let error = refusal(builder(&at(&url(), &bouncer.place()), "pooled")).await;
    let text = error.to_string();
    assert!(text.contains("pooler") && text.contains("Connect to the server itself"), "{text}");
    error
}

async fn a_pooler_in_transaction_mode_is_refused_with_the_remedy() {
    is_refused_as_a_pooler("transaction", "").await;
    is_refused_as_a_pooler("statement", "").await;
}

async fn a_pooler_that_swallows_startup_options_is_refused() {
    is_refused_as_a_pooler("transaction", "ignore_startup_parameters = options").await;
}

async fn a_pooler_in_session_mode_is_refused_and_told_that_it_would_be_right() {
    for more in ["", "ignore_startup_parameters = options"] {
        let text = is_refused_as_a_pooler("session", more).await.to_string();
        assert!(text.contains("session mode would be right"), "{text}");
    }
}

async fn a_standby_is_refused_and_of_several_hosts_the_primary_is_taken() {
    let primary = Server::start().await;
    let standby = primary.standby().await;
    let namespace = unique("standby");
    let text = refusal(builder(&standby.url(), &namespace)).await.to_string();
    assert!(text.contains("standby") && text.contains("Name the primary"), "{text}");

    let both = format!("127.0.0.1:{},127.0.0.1:{}", standby.port(), primary.port());
    let both = coordinator(&at(&primary.url(), &both), &namespace).await;
    let alone = coordinator(&primary.url(), &namespace).await;
    let lease = both.acquire(&scope("s"), Mode::Exclusive).await.expect("granted");
    assert!(alone.try_acquire(&scope("s"), Mode::Shared).await.expect("asked").is_none());
    assert!(both.same_database(&primary.client().await).await.expect("asked"));
    assert!(!both.same_database(&standby.client().await).await.expect("asked"));
    lease.release().await.expect("held to the end");
}

/// Takes a scope, and finds its sessions under the name.
async fn works(building: PostgresBuilder) -> PostgresCoordinator {
    let name = unique("works");
    let coordinator = building.namespace(&name).instance(&name).connect().await.expect("the server is there");
    let lease = coordinator.acquire(&scope("s"), Mode::Exclusive).await.expect("granted");
    lease.verify(Duration::from_secs(1)).await.expect("held");
    assert!(!sessions(&client(&url()).await, &name).await.is_empty());
    lease.release().await.expect("held to the end");
    coordinator
}

fn configuration() -> tokio_postgres::Config {
    url().parse().expect("a URL")
}

async fn unix_sockets_work() {
    let directory = variable("COORDINATOR_TEST_POSTGRES_SOCKET");
    let mut config = tokio_postgres::Config::new();
    let tcp = configuration();
    config.host_path(&directory).port(port(&url())).user(tcp.get_user().expect("a role"));
    config.password(tcp.get_password().expect("a password")).dbname(tcp.get_dbname().expect("a database"));
    works(PostgresBuilder::from_config(config)).await;

    let encoded = directory.replace('/', "%2F");
    let by_url = at(&url(), &format!("{encoded}:{}", port(&url())));
    works(PostgresCoordinator::builder(&by_url).expect("a URL")).await;
}

async fn every_way_to_configure_makes_a_coordinator() {
    works(PostgresBuilder::from_config(configuration())).await;
    let pool = deadpool_postgres::Config { url: Some(url()), ..Default::default() };
    works(PostgresBuilder::from_deadpool(&pool).expect("complete")).await;
    let tcp = configuration();
    let parts = deadpool_postgres::Config {
        host: Some("127.0.0.1".into()),
        port: Some(port(&url())),
        user: tcp.get_user().map(Into::into),
        password: Some(String::from_utf8(tcp.get_password().expect("a password").to_vec()).expect("text")),
        dbname: tcp.get_dbname().map(Into::into),
        ..Default::default()
    };
    works(PostgresBuilder::from_deadpool(&parts).expect("complete")).await;
    let key_value = format!(
        "host=127.0.0.1 port={} user={} password={} dbname={} sslmode=disable",
        port(&url()),
        tcp.get_user().expect("a role"),
        String::from_utf8_lossy(tcp.get_password().expect("a password")),
        tcp.get_dbname().expect("a database"),
    );
    works(PostgresCoordinator::builder(&key_value).expect("a configuration")).await;

    let incomplete = deadpool_postgres::Config::default();
    let error = PostgresBuilder::from_deadpool(&incomplete).expect_err("it names nothing");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

async fn a_proxy_that_ends_tcp_is_warned_about() {
    let warnings = Warnings::of_this_process();
    let proxy = link_to(&url()).await;
    works(builder(&way(&proxy, &url()), "unused")).await;
    let behind = proxy.peers();
    assert!(behind.iter().all(|peer| is_warned_about(warnings, *peer)), "{behind:?}");

    // And a direct link is not.
    let name = unique("direct");
    let direct = builder(&url(), &name).instance(&name).connect().await.expect("the server is there");
    let sql = "SELECT host(client_addr), client_port FROM pg_stat_activity WHERE application_name LIKE '% ' || $1";
    let rows = client(&url()).await.query(sql, &[&name]).await.expect("readable");
    assert!(!rows.is_empty());
    for row in rows {
        let (host, port): (String, i32) = (row.get(0), row.get(1));
        let peer = SocketAddr::new(host.parse().expect("an address"), u16::try_from(port).expect("a port"));
        assert!(!is_warned_about(warnings, peer), "{peer}");
    }
    drop(direct);
}

fn is_warned_about(warnings: &Warnings, peer: SocketAddr) -> bool {
    let is_it = |text: &String| text.contains("release_when_silent_for") && text.contains(&format!("local={peer} "));
    warnings.all().iter().any(is_it)
}

async fn a_connect_dropped_at_any_message_leaves_no_session() {
    let server = Server::start().await;
    let observer = server.client().await;
    let proxy = link_to(&server.url()).await;
    let mut messages = 0;
    for after in 0.. {
        let name = unique("dropped");
        proxy.set(Trap { fault: Fault::Silence, of: Some(Side::Instance), after });
        let connecting = builder(&way(&proxy, &server.url()), &name).instance(&name).connect();
        let connected = within(Duration::from_secs(20), "the message or the end", async {
            tokio::select! {
                connected = connecting => Some(connected),
                () = proxy.trapped() => None,
            }
        })
        .await;
        proxy.heal();
        let is_done = connected.map(|connected| drop(connected.expect("the server is there"))).is_some();
        until(Duration::from_secs(5), "no session is left", async || sessions(&observer, &name).await.is_empty()).await;
        if is_done {
            break;
        }
        messages += 1;
    }
    println!("measured: a connect sends {messages} messages");
    assert!(messages > 10, "{messages}");
}
