use super::{
    event::Told,
    failure::Failure,
    instance::{Orders, READY},
};
use std::{
    process::{ExitStatus, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::mpsc::UnboundedSender,
    time::{interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// How long an instance may take to connect, and to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// The instances of a phase, as processes; dropping it kills them.
pub(crate) struct ProcessFleet {
    template: Orders,
    instances: Vec<Instance>,
    events: UnboundedSender<Told>,
    started: usize,
    killed: u64,
}

struct Instance {
    name: String,
    child: Child,
    input: ChildStdin,
    /// Handed to a task once the instance is told to begin.
    output: Option<Lines<BufReader<ChildStdout>>>,
}

impl ProcessFleet {
    /// Starts that many instances and waits until all of them are ready.
    pub(crate) async fn start(
        instances: u16,
        template: Orders,
        events: UnboundedSender<Told>,
    ) -> Result<Self, Failure> {
        let mut fleet = Self { template, instances: Vec::new(), events, started: 0, killed: 0 };
        for _ in 0..instances {
            let instance = fleet.launch().await?;
            fleet.instances.push(instance);
        }
        for instance in &mut fleet.instances {
            instance.ready().await?;
        }
        Ok(fleet)
    }

    /// Lets the instances work until `stop`; if asked, kills and replaces one now and then, says how many.
    ///
    /// Cancels `stop` itself when an instance ends that should not.
    pub(crate) async fn run(mut self, kill: bool, stop: &CancellationToken) -> Result<u64, Failure> {
        let kept = self.keep(kill, stop).await;
        stop.cancel();
        kept?;
        let killed = self.killed;
        self.end().await?;
        Ok(killed)
    }

    async fn keep(&mut self, kill: bool, stop: &CancellationToken) -> Result<(), Failure> {
        for instance in &mut self.instances {
            instance.begin(&self.events).await?;
        }
        let mut look = interval(Duration::from_millis(50));
        loop {
            let next_kill = sleep(Duration::from_millis(rand::random_range(700..1300)));
            tokio::pin!(next_kill);
            loop {
                tokio::select! {
                    () = stop.cancelled() => return Ok(()),
                    _ = look.tick() => {
                        for instance in &mut self.instances {
                            instance.ensure_alive()?;
                        }
                    }
                    () = &mut next_kill, if kill => break,
                }
            }
            self.replace_one().await?;
        }
    }

    /// Kills an instance, wherever it is, and starts another.
    async fn replace_one(&mut self) -> Result<(), Failure> {
        let at = rand::random_range(0..self.instances.len());
        let mut killed = self.instances.swap_remove(at);
        // On Unix this is SIGKILL; `kill` also waits, so that the process is gone.
        killed
            .child
            .kill()
            .await
            .map_err(|error| Failure::Unexpected(format!("{} can't be killed: {error}", killed.name)))?;
        self.killed += 1;
        let mut instance = self.launch().await?;
        instance.ready().await?;
        instance.begin(&self.events).await?;
        self.instances.push(instance);
        Ok(())
    }

    async fn launch(&mut self) -> Result<Instance, Failure> {
        self.started += 1;
        let name = format!("drill-{}", self.started);
        let orders = Orders { name: name.clone(), ..self.template.clone() };
        Instance::launch(name, &orders).await
    }

    /// Tells all to end, and waits for them.
    async fn end(self) -> Result<(), Failure> {
        let mut ending = Vec::with_capacity(self.instances.len());
        for Instance { name, child, input, .. } in self.instances {
            drop(input); // its end is the sign
            ending.push((name, child));
        }
        for (name, mut child) in ending {
            match timeout(PATIENCE, child.wait()).await {
                Ok(Ok(status)) if status.success() => {}
                Ok(Ok(status)) => return Err(ended(&name, status)),
                Ok(Err(error)) => return Err(Failure::Unexpected(format!("{name} can't be waited for: {error}"))),
                Err(_) => return Err(Failure::Unexpected(format!("{name} did not end within {PATIENCE:?}"))),
            }
        }
        Ok(())
    }
}

impl Instance {
    async fn launch(name: String, orders: &Orders) -> Result<Self, Failure> {
        let failed = |what: &dyn std::fmt::Display| Failure::Unexpected(format!("{name} can't be started: {what}"));
        let program = std::env::current_exe().map_err(|error| failed(&error))?;
        let mut child = Command::new(program)
            .arg("drill-instance")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A group of its own: an interrupt from the terminal is the drill's to handle.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(&error))?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(&"it has no pipes"));
        };
        let mut line = serde_json::to_vec(orders).map_err(|error| failed(&error))?;
        line.push(b'\n');
        input.write_all(&line).await.map_err(|error| failed(&error))?;
        Ok(Self { name, child, input, output: Some(BufReader::new(output).lines()) })
    }

    /// Waits until it has connected to everything.
    async fn ready(&mut self) -> Result<(), Failure> {
        let Some(output) = &mut self.output else { return Ok(()) };
        match timeout(PATIENCE, output.next_line()).await {
            Ok(Ok(Some(line))) if line == READY => Ok(()),
            // It has said why on standard error.
            Ok(_) => Err(Failure::Unexpected(format!("{} could not begin", self.name))),
            Err(_) => Err(Failure::Unexpected(format!("{} did not begin within {PATIENCE:?}", self.name))),
        }
    }

    /// Gives the word to begin, and passes on what it tells.
    async fn begin(&mut self, events: &UnboundedSender<Told>) -> Result<(), Failure> {
        let failed = |error| Failure::Unexpected(format!("{} could not be told to begin: {error}", self.name));
        self.input.write_all(b"begin\n").await.map_err(failed)?;
        if let Some(mut output) = self.output.take() {
            let events = events.clone();
            tokio::spawn(async move {
                while let Ok(Some(line)) = output.next_line().await {
                    // The last line of a killed instance may be cut: it acknowledges nothing.
                    if let Ok(told) = serde_json::from_str(&line) {
                        let _ = events.send(told);
                    }
                }
            });
        }
        Ok(())
    }

    fn ensure_alive(&mut self) -> Result<(), Failure> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(ended(&self.name, status)),
            Err(error) => Err(Failure::Unexpected(format!("{} can't be looked at: {error}", self.name))),
        }
    }
}

fn ended(name: &str, status: ExitStatus) -> Failure {
    Failure::Unexpected(format!("{name} ended by itself, with {status}"))
}
