//! A connection pooler before the server.

use super::environment::{place, port, unique, url, variable};
use super::server::{as_account, free_port};
use coordinator_testkit::until;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;
use tokio::net::TcpStream;

pub(crate) struct Pgbouncer {
    directory: PathBuf,
    process: Child,
    port: u16,
}

impl Pgbouncer {
    pub(crate) async fn start(mode: &str, more: &str) -> Self {
        let directory = std::env::temp_dir().join(unique("pgbouncer"));
        fs::create_dir(&directory).expect("a directory");
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).expect("it is ours");
        let (url, own) = (url(), free_port());
        let role = url.split_once("//").and_then(|(_, rest)| rest.split_once('@')).expect("role:password").0;
        let (user, password) = role.split_once(':').expect("role:password");
        fs::write(directory.join("users"), format!("\"{user}\" \"{password}\"\n")).expect("a file");
        let host = place(&url).split_once(':').expect("host:port").0;
        let configuration = format!(
            "[databases]\n* = host={host} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {own}\n\
             unix_socket_dir =\nauth_type = trust\nauth_file = {}/users\npool_mode = {mode}\n{more}\n",
            port(&url),
            directory.display()
        );
        let file = directory.join("ini");
        fs::write(&file, configuration).expect("a file");
        let mut command = as_account(Path::new(&variable("COORDINATOR_TEST_PGBOUNCER")));
        command.arg(&file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("pgbouncer starts");
        let bouncer = Self { directory, process, port: own };
        until(Duration::from_secs(10), "pgbouncer listens", async || TcpStream::connect(bouncer.place()).await.is_ok())
            .await;
        bouncer
    }

    pub(crate) fn place(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for Pgbouncer {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL); // it may be gone
        }
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}
