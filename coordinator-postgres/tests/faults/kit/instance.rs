//! An instance in a process of its own, to be killed and frozen.

use super::environment::unique;
use coordinator_testkit::{Moment, within};
use rustix::process::{Pid, Signal, kill_process};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

pub(crate) struct Instance {
    pub(crate) name: String,
    child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    unread: Vec<String>,
}

const PATIENCE: Duration = Duration::from_secs(20);

impl Instance {
    /// Connected when this returns.
    pub(crate) async fn start(url: &str, namespace: &str, options: &[&str]) -> Self {
        let name = unique("instance");
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--as-instance", url, namespace, &name]).args(options);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("this program starts");
        let commands = child.stdin.take().expect("piped");
        let answers = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut instance = Self { name, child, commands, answers, unread: Vec::new() };
        instance.answer("ready").await;
        instance
    }

    pub(crate) async fn tell(&mut self, command: &str) {
        self.commands.write_all(format!("{command}\n").as_bytes()).await.expect("the instance listens");
    }

    /// The rest of the next line that begins with this word.
    pub(crate) async fn answer(&mut self, word: &str) -> String {
        let begins = |line: &str| line.split(' ').next() == Some(word);
        if let Some(i) = self.unread.iter().position(|line| begins(line)) {
            return rest(&self.unread.remove(i));
        }
        within(PATIENCE, &format!("the instance says {word}; it said {:?}", self.unread.clone()), async {
            loop {
                let line = self.answers.next_line().await.expect("readable").expect("the instance runs");
                if begins(&line) {
                    return rest(&line);
                }
                self.unread.push(line);
            }
        })
        .await
    }

    /// An answer that is a time since boot.
    pub(crate) async fn moment(&mut self, word: &str) -> Moment {
        let answer = self.answer(word).await;
        let first = answer.split(' ').next().and_then(|first| first.parse().ok());
        first.unwrap_or_else(|| panic!("{word}: {answer}"))
    }

    /// Acquires; answers when it had the lease.
    pub(crate) async fn acquire(&mut self, scope: &str, mode: &str) -> Moment {
        self.tell(&format!("acquire {scope} {mode}")).await;
        self.moment("granted").await
    }

    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    pub(crate) fn freeze(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn thaw(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        kill_process(pid.expect("a child that was not waited for"), signal).expect("it runs");
    }
}

fn rest(line: &str) -> String {
    line.split_once(' ').map_or_else(String::new, |(_, rest)| rest.to_owned())
}
