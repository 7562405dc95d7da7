//! A cluster of the test's own, to be killed, frozen and started again member by member.
#![allow(dead_code, reason = "each test target uses a part")]

use coordinator_etcd::etcd_client::{Client, ConnectOptions};
use coordinator_testkit::{unique, within};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const STARTS: Duration = Duration::from_secs(30);

pub(crate) struct Cluster {
    directory: PathBuf,
    members: Vec<Member>,
}

struct Member {
    arguments: Vec<String>,
    endpoint: String,
    log: PathBuf,
    process: Child,
}

impl Cluster {
    /// That many members.
    pub(crate) async fn start(members: usize) -> Self {
        Box::pin(Self::start_with(members, "http", &[])).await
    }

    /// With more arguments for each of them.
    pub(crate) async fn start_with(members: usize, scheme: &str, more: &[String]) -> Self {
        let directory = Path::new("/tmp").join(unique("coordinator-etcd"));
        fs::create_dir(&directory).expect("a directory");
        let peers: Vec<_> = (0..members).map(|_| format!("http://127.0.0.1:{}", free_port())).collect();
        let named: Vec<_> = peers.iter().enumerate().map(|(at, peer)| format!("m{at}={peer}")).collect();
        let member = |at: usize| {
            let (endpoint, peer) = (format!("{scheme}://127.0.0.1:{}", free_port()), &peers[at]);
            let mut arguments = vec![
                format!("--name=m{at}"),
                format!("--data-dir={}", directory.join(format!("m{at}")).display()),
                format!("--listen-client-urls={endpoint}"),
                format!("--advertise-client-urls={endpoint}"),
                format!("--listen-peer-urls={peer}"),
                format!("--initial-advertise-peer-urls={peer}"),
                format!("--initial-cluster={}", named.join(",")),
                format!("--initial-cluster-token={}", directory.display()),
            ];
            arguments.extend(more.iter().cloned());
            let log = directory.join(format!("m{at}.log"));
            let process = serve(&arguments, &log);
            Member { arguments, endpoint, log, process }
        };
        let cluster = Self { members: (0..members).map(member).collect(), directory };
        if scheme == "http" {
            cluster.answers().await;
        }
        cluster
    }

    /// Waits until a majority does.
    pub(crate) async fn answers(&self) {
        within(STARTS, "the cluster answers", async {
            while !self.is_there().await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    }

    async fn is_there(&self) -> bool {
        match Box::pin(self.client()).await {
            Ok(client) => Box::pin(client.kv_client().get("x", None)).await.is_ok(),
            Err(_) => false,
        }
    }

    /// Waits until each member does, and knows the leader.
    pub(crate) async fn is_complete(&self) {
        for member in &self.members {
            within(STARTS, "each member answers", async {
                let client = Box::pin(Client::connect([&member.endpoint], None)).await.expect("no I/O yet");
                while Box::pin(client.kv_client().get("x", None)).await.is_err() {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            })
            .await;
        }
    }

    /// Of the members that run.
    pub(crate) async fn client(&self) -> Result<Client, coordinator_etcd::etcd_client::Error> {
        let options = ConnectOptions::new().with_timeout(Duration::from_secs(2));
        let endpoints: Vec<_> = self.members.iter().map(|member| &member.endpoint).collect();
        // Boxed here and below: a client is large.
        Box::pin(Client::connect(endpoints, Some(options))).await
    }

    pub(crate) fn endpoints(&self) -> String {
        self.members.iter().map(|member| member.endpoint.as_str()).collect::<Vec<_>>().join(",")
    }

    pub(crate) fn endpoint(&self, at: usize) -> String {
        self.members[at].endpoint.clone()
    }

    /// Which member leads.
    pub(crate) async fn leader(&self) -> usize {
        for (at, member) in self.members.iter().enumerate() {
            let client = Box::pin(Client::connect([&member.endpoint], None)).await.expect("no I/O yet");
            let status = client.maintenance_client().status().await.expect("an answer");
            if status.header().is_some_and(|header| header.member_id() == status.leader()) {
                return at;
            }
        }
        panic!("nobody leads");
    }

    pub(crate) fn kill(&mut self, at: usize) {
        self.tell(at, Signal::KILL);
        self.members[at].process.wait().expect("a child");
    }

    pub(crate) fn start_again(&mut self, at: usize) {
        let member = &mut self.members[at];
        member.process = serve(&member.arguments, &member.log);
    }

    pub(crate) fn freeze(&self, at: usize) {
        self.tell(at, Signal::STOP);
    }

    pub(crate) fn thaw(&self, at: usize) {
        self.tell(at, Signal::CONT);
    }

    fn tell(&self, at: usize, signal: Signal) {
        if let Some(pid) = i32::try_from(self.members[at].process.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal); // it may be gone
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for at in 0..self.members.len() {
            if self.members[at].process.try_wait().is_ok_and(|ended| ended.is_none()) {
                self.kill(at);
            }
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn serve(arguments: &[String], log: &Path) -> Child {
    let program = std::env::var("COORDINATOR_TEST_ETCD");
    let program = program.expect("COORDINATOR_TEST_ETCD is not set: run under scripts/with-servers");
    let log = fs::OpenOptions::new().create(true).append(true).open(log).expect("a log");
    // It ends with the test that started it.
    let mut etcd = Command::new("setpriv");
    etcd.args(["--pdeathsig", "KILL", "--"]).arg(program).args(arguments).stdin(Stdio::null());
    etcd.stdout(log.try_clone().expect("a log")).stderr(log).spawn().expect("setpriv (util-linux) runs")
}

/// Below the range that clients' ports come from, so that it is still free after a kill.
fn free_port() -> u16 {
    loop {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").subsec_nanos();
        let port = 20_000 + u16::try_from((now / 64 + std::process::id()) % 12_000).expect("small");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
