//! The other process: this same program, told what to do on its standard input, saying what it did line by line.

use coordinator_local::{ErasureCoordinator, FileCoordinator, Mode, Scope};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    env,
    io::{self, BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

const ROLE: &str = "--as-another-process";
const PATIENCE: Duration = Duration::from_secs(20);

/// Another process that wants a scope; killed when it is dropped.
pub(crate) struct Other {
    child: Child,
    input: ChildStdin,
    said: Receiver<String>,
}

impl Other {
    /// A process that waits for the scope, holds it, and releases it when it is told to.
    pub(crate) fn wanting(directory: &Path, scope: &str, mode: Mode) -> Self {
        let program = env::current_exe().expect("this program");
        let mut child = Command::new(program)
            .args([ROLE, scope, &mode.to_string()])
            .arg(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let (input, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let (say, said) = channel();
        thread::spawn(move || BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| say.send(line)));
        let other = Self { child, input, said };
        other.says("waits");
        other
    }

    pub(crate) fn holding(directory: &Path, scope: &str, mode: Mode) -> Self {
        let other = Self::wanting(directory, scope, mode);
        other.says("holds");
        other
    }

    /// Waits for this line.
    pub(crate) fn says(&self, expected: &str) {
        assert_eq!(self.line(), expected);
    }

    pub(crate) fn has_said_nothing_for(&self, time: Duration) -> bool {
        self.said.recv_timeout(time).is_err()
    }

    pub(crate) fn told(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}").expect("it listens");
        self.line()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill(Pid::from_raw(pid), signal).expect("the process is there");
        if signal == Signal::SIGSTOP {
            let deadline = Instant::now() + PATIENCE;
            while !self.is_stopped() {
                assert!(Instant::now() < deadline, "it did not stop");
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    pub(crate) fn end(mut self) -> ExitStatus {
        self.child.wait().expect("it ends")
    }

    fn is_stopped(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("the process is there");
        status.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
    }

    fn line(&self) -> String {
        self.said.recv_timeout(PATIENCE).expect("it says something")
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Plays the other process, if this program was started as one.
pub(crate) fn is_played() -> bool {
    let arguments: Vec<_> = env::args().collect();
    let [_, role, scope, mode, directory] = &arguments[..] else { return false };
    if role != ROLE {
        return false;
    }
    let mode = if mode == "shared" { Mode::Shared } else { Mode::Exclusive };
    let scope = Scope::new(scope).expect("a valid name");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(play(Path::new(directory), scope, mode));
    true
}

async fn play(directory: &Path, scope: Scope, mode: Mode) {
    let coordinator = FileCoordinator::open(directory).expect("opened");
    say("waits");
    let lease = coordinator.acquire(&scope, mode).await.expect("no failure");
    say("holds");
    for command in io::stdin().lines().map_while(Result::ok) {
        match command.as_str() {
            "fence" => say(&lease.fence().await.map_or_else(|error| error.to_string(), |token| token.to_string())),
            "start a program" => {
                let child = Command::new("sleep").arg("60").stdin(Stdio::null()).stdout(Stdio::null()).spawn();
                say(&child.expect("a program").id().to_string());
            }
            "release" => {
                let outcome = lease.release().await;
                return say(&outcome.map_or_else(|error| error.to_string(), |()| "released".into()));
            }
            other => panic!("{other}?"),
        }
    }
}

fn say(what: &str) {
    let mut output = io::stdout().lock();
    writeln!(output, "{what}").and_then(|()| output.flush()).expect("somebody listens");
}
