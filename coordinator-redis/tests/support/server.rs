//! A server of the test's own, to be stopped, killed and frozen.
#![allow(dead_code, reason = "each test target uses a part")]

use coordinator_testkit::{unique, within};
use redis::aio::MultiplexedConnection;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) struct Server {
    data: PathBuf,
    port: u16,
    options: Vec<String>,
    process: Child,
}

/// Every write is in the file before it is answered: what is killed has forgotten nothing.
pub(crate) const DURABLE: &[&str] = &["--appendonly", "yes", "--appendfsync", "always"];
pub(crate) const FORGETFUL: &[&str] = &["--appendonly", "no"];

impl Server {
    pub(crate) async fn start(options: &[&str]) -> Self {
        let options: Vec<_> = options.iter().map(ToString::to_string).collect();
        let data = Path::new("/tmp").join(unique("coordinator"));
        fs::create_dir(&data).expect("a directory");
        if let Some((user, group)) = account() {
            std::os::unix::fs::chown(&data, Some(user), Some(group)).expect("root may");
        }
        for _ in 0..5 {
            let port = free_port();
            let process = serve(&data, port, &options);
            let mut server = Self { data: data.clone(), port, options: options.clone(), process };
            if server.answers().await {
                return server;
            }
            server.data = PathBuf::new(); // to be used again
        }
        panic!("Redis did not start: {}", fs::read_to_string(data.join("log")).unwrap_or_default());
    }

    async fn answers(&mut self) -> bool {
        within(Duration::from_secs(30), "the server answers", async {
            loop {
                if let Ok(mut client) = self.try_client().await
                    && redis::cmd("PING").query_async::<String>(&mut client).await.is_ok()
                {
                    return true;
                }
                if self.process.try_wait().expect("a child").is_some() {
                    return false;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.place())
    }

    pub(crate) fn place(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    pub(crate) async fn client(&self) -> MultiplexedConnection {
        self.try_client().await.expect("the server is there")
    }

    async fn try_client(&self) -> redis::RedisResult<MultiplexedConnection> {
        redis::Client::open(self.url())?.get_multiplexed_async_connection().await
    }

    /// As `kill -9` does; returns when it has ended.
    pub(crate) fn kill(&mut self) {
        self.tell(Signal::KILL);
        self.process.wait().expect("a child");
    }

    /// After a kill, at the same port.
    pub(crate) async fn start_again(&mut self) {
        self.process = serve(&self.data, self.port, &self.options);
        assert!(self.answers().await, "the server starts again");
    }

    pub(crate) fn freeze(&self) {
        self.tell(Signal::STOP);
    }

    pub(crate) fn thaw(&self) {
        self.tell(Signal::CONT);
    }

    fn tell(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal); // it may be gone
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.process.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.kill();
        }
        if self.data != Path::new("") {
            let _ = fs::remove_dir_all(&self.data);
        }
    }
}

fn serve(data: &Path, port: u16, options: &[String]) -> Child {
    let log = fs::OpenOptions::new().create(true).append(true).open(data.join("log")).expect("a log");
    let program = std::env::var("COORDINATOR_TEST_REDIS_SERVER");
    let program = program.expect("COORDINATOR_TEST_REDIS_SERVER is not set: run under scripts/with-servers");
    // It ends with the test that started it.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if let Some((user, group)) = account() {
        command.args([format!("--reuid={user}"), format!("--regid={group}"), "--clear-groups".into()]);
    }
    command.arg("--").arg(program).args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--dir"]);
    command.arg(data).args(["--maxmemory-policy", "noeviction"]).args(options).current_dir("/");
    command.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
    command.spawn().expect("setpriv (util-linux) runs")
}

/// The account that servers run as when the caller is root.
fn account() -> Option<(u32, u32)> {
    let account = std::env::var("COORDINATOR_TEST_SERVER_USER").ok().filter(|account| !account.is_empty())?;
    let id = |which: &str| {
        let output = Command::new("id").args([which, account.as_str()]).output().expect("id runs");
        String::from_utf8(output.stdout).expect("a number").trim().parse().expect("a number")
    };
    Some((id("-u"), id("-g")))
}

/// Below the range that clients' ports come from, so that it is still free after a stop.
fn free_port() -> u16 {
    loop {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").subsec_nanos();
        let port = 20_000 + u16::try_from((now / 64 + std::process::id()) % 12_000).expect("small");
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
