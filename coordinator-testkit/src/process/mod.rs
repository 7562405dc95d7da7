//! An instance in a process of its own: this same program, started anew, to be killed, frozen and cut off.
//!
//! The two talk by lines of JSON: commands on its input, answers on its output. Whatever else the backend prints is
//! passed on. What it holds is called by the name of its scope.

mod agent;
mod protocol;

pub(crate) use agent::serve;
pub(crate) use protocol::{Answer, Command, Span, Told};

use crate::history::{Client, Recorder, Step};
use crate::{Env, Moment, PATIENCE, within};
use coordinator_core::Mode;
use protocol::{AGENT, Line, Numbered};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};
use tokio::task::JoinHandle;

/// Where this process was started to be an instance: where it lives.
pub(crate) fn asked_for() -> Option<Env> {
    let env = std::env::var(AGENT).ok()?;
    Some(serde_json::from_str(&env).expect("written by the process that started this one"))
}

pub(crate) struct Process {
    env: Env,
    child: Mutex<Child>,
    pid: Pid,
    commands: AsyncMutex<ChildStdin>,
    numbers: AtomicU64,
    open: Arc<Mutex<HashMap<u64, oneshot::Sender<Answer>>>>,
    told: AsyncMutex<mpsc::UnboundedReceiver<Told>>,
    /// Records what it is asked and what it says.
    client: Client,
    recorder: Arc<Recorder>,
    reading: JoinHandle<()>,
}

impl Process {
    /// Connected when this returns.
    pub(crate) async fn start(env: &Env, recorder: &Arc<Recorder>) -> Self {
        let mut command = tokio::process::Command::new(std::env::current_exe().expect("this program"));
        command.env(AGENT, serde_json::to_string(env).expect("text")).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("this program starts");
        let (commands, output) = (child.stdin.take().expect("piped"), child.stdout.take().expect("piped"));
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw).expect("it runs");
        let open = Arc::default();
        let (tell, told) = mpsc::unbounded_channel();
        let client = recorder.client_of(env.instance(), "case");
        let reading = tokio::spawn(read(output, Arc::clone(&open), client.clone(), tell));
        let process = Self {
            env: env.clone(),
            child: Mutex::new(child),
            pid,
            commands: AsyncMutex::new(commands),
            numbers: AtomicU64::new(0),
            open,
            told: AsyncMutex::new(told),
            client,
            recorder: Arc::clone(recorder),
            reading,
        };
        process.ask(Command::Connect).await.done();
        process
    }

    pub(crate) fn env(&self) -> &Env {
        &self.env
    }

    /// The command's answer, by a time that nothing takes. Commands run side by side.
    pub(crate) async fn ask(&self, command: Command) -> Answer {
        let what = format!("{} answers {command:?}", self.env.instance());
        within(3 * PATIENCE, &what, self.tell(command).await).await
    }

    /// Sends the command; the answer is to be awaited where it is wanted.
    pub(crate) async fn tell(&self, command: Command) -> impl Future<Output = Answer> + Send + 'static + use<> {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let (reply, answer) = oneshot::channel();
        lock(&self.open).insert(number, reply);
        let mut line = serde_json::to_string(&Numbered { number, command }).expect("text");
        line.push('\n');
        let mut commands = self.commands.lock().await;
        // A process that was killed answers nothing; who awaits the answer is told so.
        if commands.write_all(line.as_bytes()).await.is_err() {
            lock(&self.open).remove(&number);
        }
        async move { answer.await.unwrap_or(Answer::Gone) }
    }

    pub(crate) async fn acquire(&self, scope: &str, mode: Mode, limit: Duration) -> Answer {
        self.client.does(scope, Step::Invoke(mode));
        let answer = self.ask(Command::Acquire { scope: scope.into(), mode, limit }).await;
        self.client.answered(scope, mode, answer)
    }

    /// As [`acquire`](Self::acquire), without waiting for the answer here.
    pub(crate) async fn queue(&self, scope: &str, mode: Mode) -> impl Future<Output = Answer> + Send + 'static + use<> {
        self.client.does(scope, Step::Invoke(mode));
        let answer = self.tell(Command::Acquire { scope: scope.into(), mode, limit: 3 * PATIENCE }).await;
        let (client, scope) = (self.client.clone(), scope.to_owned());
        async move { client.answered(&scope, mode, answer.await) }
    }

    pub(crate) async fn try_acquire(&self, scope: &str, mode: Mode) -> Answer {
        self.client.does(scope, Step::Invoke(mode));
        let answer = self.ask(Command::TryAcquire { scope: scope.into(), mode }).await;
        self.client.answered(scope, mode, answer)
    }

    pub(crate) async fn release(&self, scope: &str) -> Answer {
        self.client.does(scope, Step::Release);
        self.client.failed(scope, self.ask(Command::Release { scope: scope.into() }).await)
    }

    pub(crate) async fn fence(&self, scope: &str) -> Answer {
        let asked = Moment::now();
        let answer = self.ask(Command::Fence { scope: scope.into() }).await;
        if let Answer::Token(token) = answer {
            self.client.does(scope, Step::Token { token, asked });
        }
        self.client.failed(scope, answer)
    }

    /// Whether it believes in its lease.
    pub(crate) async fn is_live(&self, scope: &str) -> Answer {
        self.ask(Command::EnsureLive { scope: scope.into() }).await
    }

    /// What it says unasked next: that a lease was lost, and until when it believed in it.
    pub(crate) async fn told(&self, limit: Duration) -> Told {
        let mut told = self.told.lock().await;
        let what = format!("{} tells of a loss", self.env.instance());
        within(limit, &what, told.recv()).await.expect("the process runs")
    }

    pub(crate) fn kill(&self) {
        self.recorder.killed(self.env.instance());
        self.signal(Signal::KILL);
    }

    pub(crate) fn freeze(&self) {
        self.recorder.note(self.env.instance(), "frozen");
        self.signal(Signal::STOP);
    }

    pub(crate) fn thaw(&self) {
        self.recorder.note(self.env.instance(), "thawed");
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        // Not one that has ended and was waited for: its id may be another's by now.
        if child.try_wait().is_ok_and(|ended| ended.is_none()) {
            kill_process(self.pid, signal).expect("a child of ours");
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        self.reading.abort();
    }
}

async fn read(
    output: ChildStdout,
    open: Arc<Mutex<HashMap<u64, oneshot::Sender<Answer>>>>,
    client: Client,
    tell: mpsc::UnboundedSender<Told>,
) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            Ok(Line::Answer { number, answer }) => {
                if let Some(reply) = lock(&open).remove(&number) {
                    let _ = reply.send(answer); // the case may not want it any more
                }
            }
            Ok(Line::Told(told)) => {
                client.told(&told);
                let _ = tell.send(told); // as above
            }
            Err(_) => println!("{line}"),
        }
    }
    lock(&open).clear();
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
