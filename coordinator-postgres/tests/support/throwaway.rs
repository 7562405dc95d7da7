//! A PostgreSQL server of a test's own, for what would disturb others.

use super::{client, random, variable};
use coordinator_postgres::tokio_postgres::Client;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Stopped and removed when dropped.
pub(crate) struct Throwaway {
    directory: PathBuf,
    server: Child,
    pub(crate) url: String,
}

impl Throwaway {
    /// With these lines in its configuration.
    pub(crate) async fn start(configuration: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("coordinator-{}", random()));
        let data = directory.join("data");
        std::fs::create_dir(&directory).expect("created");
        own(&directory);
        let initdb = program("initdb", &directory)
            .args(["--auth=trust", "--no-sync", "--username=postgres", "--encoding=UTF8", "--locale=C", "--pgdata"])
            .arg(&data)
            .stdout(Stdio::null())
            .status();
        assert!(initdb.expect("initdb runs").success(), "initdb failed");
        // The kernel's choice; somebody may take it before the server does, which is then seen.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|probe| probe.local_addr()).expect("a free port").port();
        let server = program("postgres", &directory)
            .arg("-D")
            .arg(&data)
            .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="])
            .args(["-c", "dynamic_shared_memory_type=mmap", "-c", "shared_buffers=16MB", "-c", "fsync=off"])
            .args(configuration.lines().flat_map(|line| ["-c", line.trim()]))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("postgres runs");
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        let mut this = Self { directory, server, url };
        this.answers().await;
        this
    }

    async fn answers(&mut self) {
        let begin = Instant::now();
        while tokio::task::block_in_place(|| std::net::TcpStream::connect(self.address())).is_err()
            || coordinator_postgres::tokio_postgres::connect(&self.url, coordinator_postgres::tokio_postgres::NoTls)
                .await
                .is_err()
        {
            assert!(self.server.try_wait().expect("its state").is_none(), "the server ended");
            assert!(begin.elapsed() < Duration::from_secs(30), "the server does not answer");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn address(&self) -> &str {
        self.url.split(['@', '/']).nth(3).expect("host and port")
    }

    pub(crate) async fn client(&self) -> Client {
        client(&self.url).await
    }
}

impl Drop for Throwaway {
    fn drop(&mut self) {
        // The postmaster ends its children when it is asked to; SIGKILL would leave them.
        let pid = self.server.id().to_string();
        let _ = Command::new("kill").args(["-s", "INT", &pid]).status();
        let _ = self.server.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// PostgreSQL refuses to run as root.
fn account() -> Option<String> {
    std::env::var("COORDINATOR_TEST_SERVER_USER").ok().filter(|user| !user.is_empty())
}

fn program(name: &str, directory: &Path) -> Command {
    let program = Path::new(&variable("COORDINATOR_TEST_POSTGRES_BIN")).join(name);
    let mut command = match account() {
        None => Command::new(program),
        Some(user) => {
            let mut command = Command::new("setpriv");
            command
                .args([format!("--reuid={user}"), format!("--regid={}", group(&user))])
                .args(["--clear-groups", "--"]);
            command.arg(program);
            command
        }
    };
    command.current_dir(directory).env("LC_ALL", "C").stdin(Stdio::null());
    command
}

fn group(user: &str) -> String {
    let id = Command::new("id").args(["-g", user]).output().expect("id runs");
    String::from_utf8(id.stdout).expect("a number").trim().to_owned()
}

fn own(directory: &Path) {
    if let Some(user) = account() {
        let chown = Command::new("chown").arg(user).arg(directory).status();
        assert!(chown.expect("chown runs").success());
    }
}
