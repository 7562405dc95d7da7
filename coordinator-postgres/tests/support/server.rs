//! A server of the test's own, to be stopped, killed and copied.
#![allow(dead_code, reason = "each test target uses a part")]

use coordinator_postgres::tokio_postgres::{self, NoTls};
use coordinator_testkit::{unique, within};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio_postgres::Client;

pub(crate) struct Server {
    data: PathBuf,
    port: u16,
    process: Child,
}

/// How a server is told to stop.
#[derive(Clone, Copy)]
pub(crate) enum Stop {
    Fast,
    Immediate,
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::start_with("").await
    }

    /// With more lines of configuration.
    pub(crate) async fn start_with(configuration: &str) -> Self {
        let data = directory();
        let place = data.to_str().expect("a path of text");
        run(program("initdb").args([
            "--username=postgres",
            "--auth=trust",
            "--no-sync",
            "--no-instructions",
            "-D",
            place,
        ]));
        let own = format!("{SETTINGS}unix_socket_directories = '{place}'\n{configuration}\n");
        append(&data.join("postgresql.conf"), &own);
        Self::open(data, None).await
    }

    /// A hot standby of this server.
    pub(crate) async fn standby(&self) -> Self {
        let data = directory();
        let place = data.to_str().expect("a path of text");
        let port = self.port.to_string();
        let from = ["-h", "127.0.0.1", "-p", &port, "-U", "postgres"];
        run(program("pg_basebackup").args(from).args(["-R", "--no-sync", "--checkpoint=fast", "-D", place]));
        append(&data.join("postgresql.conf"), &format!("unix_socket_directories = '{place}'\n"));
        Self::open(data, None).await
    }

    async fn open(data: PathBuf, port: Option<u16>) -> Self {
        for _ in 0..5 {
            let port = port.unwrap_or_else(free_port);
            let process = serve(&data, port);
            let mut server = Self { data: data.clone(), port, process };
            if server.answers().await {
                return server;
            }
            server.data = PathBuf::new(); // to be used again
        }
        panic!("PostgreSQL did not start: {}", fs::read_to_string(data.join("log")).unwrap_or_default());
    }

    async fn answers(&mut self) -> bool {
        let url = self.url();
        within(Duration::from_secs(30), "the server answers", async {
            loop {
                if let Ok((_, connection)) = tokio_postgres::connect(&url, NoTls).await {
                    drop(connection);
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

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// For its superuser, without a password.
    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    pub(crate) async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await.expect("the server is there");
        tokio::spawn(connection);
        client
    }

    /// Returns when it has stopped.
    pub(crate) fn stop(&mut self, how: Stop) {
        let signal = match how {
            Stop::Fast => Signal::INT,
            Stop::Immediate => Signal::QUIT,
        };
        self.tell(signal);
        self.process.wait().expect("a child");
    }

    /// After a stop, on the same port.
    pub(crate) async fn start_again(&mut self) {
        self.process = serve(&self.data, self.port);
        assert!(self.answers().await, "the server starts again");
    }

    /// The process that opens sessions stands still; those that are open live.
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
            self.tell(Signal::QUIT);
            self.thaw(); // a test may have failed meanwhile
            let _ = self.process.wait();
        }
        if self.data != Path::new("") {
            let _ = fs::remove_dir_all(&self.data);
        }
    }
}

/// What was written survives the end of the server's processes also without `fsync`.
const SETTINGS: &str = "listen_addresses = '*'\nshared_buffers = 16MB\ndynamic_shared_memory_type = mmap\n\
    max_connections = 60\nwal_level = replica\nfsync = off\n";

fn serve(data: &Path, port: u16) -> Child {
    let log = fs::OpenOptions::new().create(true).append(true).open(data.join("log")).expect("a log");
    let mut postgres = program("postgres");
    postgres.arg("-D").arg(data).args(["-p", &port.to_string()]);
    postgres.stdin(Stdio::null()).stdout(log.try_clone().expect("a log")).stderr(log);
    postgres.spawn().expect("postgres starts")
}

/// A program of PostgreSQL, as the account that may run it.
fn program(name: &str) -> Command {
    let programs = std::env::var("COORDINATOR_TEST_POSTGRES_BIN");
    let programs = programs.expect("COORDINATOR_TEST_POSTGRES_BIN is not set: run under scripts/with-servers");
    as_account(&Path::new(&programs).join(name))
}

/// Servers refuse to run as root; and they end with the test that started them.
pub(crate) fn as_account(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "QUIT"]);
    let account = std::env::var("COORDINATOR_TEST_SERVER_USER").unwrap_or_default();
    if !account.is_empty() {
        let id = |which: &str| {
            let output = Command::new("id").args([which, account.as_str()]).output().expect("id runs");
            String::from_utf8(output.stdout).expect("a number").trim().to_owned()
        };
        command.args([format!("--reuid={}", id("-u")), format!("--regid={}", id("-g")), "--clear-groups".into()]);
    }
    command.arg("--").arg(program).current_dir("/").env("LC_ALL", "C");
    command
}

fn run(command: &mut Command) {
    let output = command.output().expect("setpriv (util-linux) runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Not made yet: the server's account makes it.
fn directory() -> PathBuf {
    Path::new("/tmp").join(unique("coordinator"))
}

fn append(file: &Path, text: &str) {
    let mut content = fs::read_to_string(file).expect("a file of initdb");
    content.push_str(text);
    fs::write(file, content).expect("a writable file");
}

/// Below the range that clients' ports come from, so that it is still free after a stop.
pub(crate) fn free_port() -> u16 {
    loop {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").subsec_nanos();
        let port = 20_000 + u16::try_from((now / 64 + std::process::id()) % 12_000).expect("small");
        if TcpListener::bind(("0.0.0.0", port)).is_ok() {
            return port;
        }
    }
}
