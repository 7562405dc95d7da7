//! The contract between operating system processes: this program runs itself as the other instances.

mod support;

use coordinator_postgres::{ErasureCoordinator, ErasureCoordinatorExt, Lease, Mode, PostgresCoordinator};
use libtest_mimic::{Arguments, Trial};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{Deployment, PATIENCE, Server, client, random, scope, soon, until, url, waiters, waits};

/// Set in a child: the namespace that it shares.
const CHILD: &str = "COORDINATOR_TEST_CHILD_OF";

fn main() -> ExitCode {
    if let Ok(namespace) = std::env::var(CHILD) {
        runtime().block_on(serve(namespace));
        return ExitCode::SUCCESS;
    }
    let arguments = Arguments::from_args();
    macro_rules! trials {
        ($($name:ident),* $(,)?) => {
            vec![$(Trial::test(stringify!($name), || {
                runtime().block_on($name());
                Ok(())
            })),*]
        };
    }
    let trials = trials![
        leases_exclude_another_process_both_ways,
        a_process_that_ends_frees_its_scopes,
        a_killed_holder_is_followed_at_once,
        a_killed_waiter_is_out_of_the_way,
        a_step_of_a_killed_process_ends_with_it,
        a_step_outlives_its_dropped_caller,
        no_update_is_lost_between_processes,
    ];
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// An instance in a process of its own, told what to do line by line.
struct Instance {
    process: Child,
    orders: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Instance {
    fn start(deployment: &Deployment) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.env(CHILD, &deployment.namespace).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().expect("started");
        let orders = process.stdin.take().expect("piped");
        let answers = BufReader::new(process.stdout.take().expect("piped")).lines();
        Self { process, orders, answers }
    }

    fn order(&mut self, order: &str) {
        writeln!(self.orders, "{order}").expect("it listens");
    }

    fn answer(&mut self) -> String {
        self.answers.next().expect("it answers").expect("text")
    }

    fn does(&mut self, order: &str) -> String {
        self.order(order);
        self.answer()
    }

    fn kill(&mut self) {
        self.process.kill().expect("killed");
        self.process.wait().expect("gone");
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a child does: one order a line, one answer a line.
async fn serve(namespace: String) {
    let deployment = Deployment::named(namespace);
    let coordinator = deployment.connect(&format!("child{}", std::process::id())).await;
    let mut leases: HashMap<String, Lease> = HashMap::new();
    for line in std::io::stdin().lines() {
        let line = line.expect("text");
        let words: Vec<&str> = line.split(' ').collect();
        let answer = match words[..] {
            ["try", name, mode] => match coordinator.try_acquire(&scope(name), mode_of(mode)).await.expect("an answer")
            {
                Some(lease) => {
                    leases.insert(name.to_owned(), lease);
                    "granted"
                }
                None => "refused",
            },
            ["acquire", name, mode] => {
                leases.insert(name.to_owned(), soon(&coordinator, &scope(name), mode_of(mode)).await);
                "granted"
            }
            ["release", name] => {
                leases.remove(name).expect("held").release().await.expect("held to the end");
                "released"
            }
            ["step", name] => {
                let step = async {
                    println!("begun");
                    std::future::pending::<()>().await;
                };
                leases[name].irreversible(Duration::from_secs(1), step).await.expect("held");
                "ended"
            }
            ["count", table, name] => {
                counts(&coordinator, table, name).await;
                "counted"
            }
            _ => panic!("no such order: {line}"),
        };
        println!("{answer}");
    }
}

fn mode_of(word: &str) -> Mode {
    if word == "shared" { Mode::Shared } else { Mode::Exclusive }
}

/// Adds one, many times, in two steps that another process must not come between.
async fn counts(coordinator: &PostgresCoordinator, table: &str, name: &str) {
    let store = client(&url()).await;
    for _ in 0..50 {
        let lease = soon(coordinator, &scope(name), Mode::Exclusive).await;
        let sql = format!("SELECT n FROM {table}");
        let n: i64 = store.query_one(&sql, &[]).await.expect("an answer").get(0);
        store.execute(&format!("UPDATE {table} SET n = $1"), &[&(n + 1)]).await.expect("written");
        lease.release().await.expect("held to the end");
    }
}

async fn leases_exclude_another_process_both_ways() {
    let deployment = Deployment::new();
    let (here, mut there) = (deployment.connect("here").await, Instance::start(&deployment));
    let subject = scope("subject");
    let lease = soon(&here, &subject, Mode::Exclusive).await;
    assert_eq!(there.does("try subject exclusive"), "refused");
    assert_eq!(there.does("try subject shared"), "refused");
    lease.release().await.expect("held to the end");
    assert_eq!(there.does("try subject exclusive"), "granted");
    for mode in [Mode::Exclusive, Mode::Shared] {
        assert!(here.try_acquire(&subject, mode).await.expect("an answer").is_none());
    }
    let waiter = waits(&here, subject, Mode::Shared);
    waiters(&here, &subject, 1).await;
    assert_eq!(there.does("release subject"), "released");
    let (lease, _) = waiter.await.expect("served");
    assert_eq!(there.does("try subject exclusive"), "refused");
    assert_eq!(there.does("acquire subject shared"), "granted");
    lease.release().await.expect("held to the end");
    there.does("release subject");
    soon(&here, &subject, Mode::Exclusive).await.release().await.expect("held to the end");
}

async fn a_process_that_ends_frees_its_scopes() {
    let deployment = Deployment::new();
    let (here, mut there) = (deployment.connect("here").await, Instance::start(&deployment));
    for name in ["a", "b", "c"] {
        assert_eq!(there.does(&format!("acquire {name} exclusive")), "granted");
    }
    drop(std::mem::replace(&mut there.orders, sink())); // its input ends, and so does it
    assert!(there.process.wait().expect("it ends").success());
    for name in ["a", "b", "c"] {
        drop(soon(&here, &scope(name), Mode::Exclusive).await);
    }
}

/// Something to take the place of a pipe that is closed.
fn sink() -> ChildStdin {
    let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("cat runs");
    let stdin = cat.stdin.take().expect("piped");
    std::thread::spawn(move || cat.wait());
    stdin
}

async fn a_killed_holder_is_followed_at_once() {
    let deployment = Deployment::new();
    let (here, subject, server) = (deployment.connect("here").await, scope("subject"), Server::connect().await);
    let key = deployment.key(&subject);
    let mut times = Vec::new();
    for _ in 0..20 {
        let mut there = Instance::start(&deployment);
        assert_eq!(there.does("acquire subject exclusive"), "granted");
        let waiter = waits(&here, subject, Mode::Exclusive);
        until!("it waits at the server", server.pids(key, false).await.len() == 1);
        let begin = Instant::now();
        there.process.kill().expect("killed");
        let (lease, granted) = waiter.await.expect("served");
        times.push(granted - begin);
        lease.release().await.expect("held to the end");
    }
    times.sort();
    println!("next holder after SIGKILL: median {:?}, longest {:?}", times[10], times[19]);
    assert!(times[10] < Duration::from_millis(250) && times[19] < Duration::from_secs(5), "{times:?}");
}

async fn a_killed_waiter_is_out_of_the_way() {
    let deployment = Deployment::new();
    let (here, next) = (deployment.connect("here").await, deployment.connect("next").await);
    let (subject, server) = (scope("subject"), Server::connect().await);
    let held = soon(&here, &subject, Mode::Exclusive).await;
    let mut there = Instance::start(&deployment);
    there.order("acquire subject exclusive");
    waiters(&here, &subject, 1).await;
    let waiter = waits(&next, subject, Mode::Exclusive);
    until!("both wait", server.locks(&deployment.namespace, 3).await >= 4);
    there.kill();
    let waited = until!("the dead one leaves", {
        here.inspect(&subject).await.expect("an answer").waiters.iter().all(|waiter| waiter.instance == next.instance())
    });
    assert!(waited < Duration::from_secs(5), "{waited:?}");
    held.release().await.expect("held to the end");
    drop(waiter.await.expect("served"));
}

async fn a_step_of_a_killed_process_ends_with_it() {
    let deployment = Deployment::new();
    let (here, mut there) = (deployment.connect("here").await, Instance::start(&deployment));
    assert_eq!(there.does("acquire subject exclusive"), "granted");
    assert_eq!(there.does("step subject"), "begun");
    let subject = scope("subject");
    let limit = Duration::from_millis(300);
    assert!(here.acquire_within(&subject, Mode::Exclusive, limit).await.expect("an answer").is_none());
    there.kill();
    let lease = soon(&here, &subject, Mode::Exclusive).await;
    lease.verify(Duration::from_secs(1)).await.expect("held");
}

async fn a_step_outlives_its_dropped_caller() {
    let deployment = Deployment::new();
    let (here, mut there) = (deployment.connect("here").await, Instance::start(&deployment));
    let subject = scope("subject");
    let (begin, begun) = tokio::sync::oneshot::channel();
    let (end, ends) = tokio::sync::oneshot::channel::<()>();
    let caller = {
        let here = Arc::clone(&here);
        tokio::spawn(async move {
            let lease = soon(&here, &subject, Mode::Exclusive).await;
            let step = async {
                begin.send(()).expect("awaited");
                ends.await.expect("told to end");
            };
            lease.irreversible(Duration::from_secs(1), step).await.expect("held");
        })
    };
    begun.await.expect("the step runs");
    caller.abort();
    assert!(caller.await.expect_err("aborted").is_cancelled());
    drop(here); // the step owns what it needs
    for _ in 0..5 {
        assert_eq!(there.does("try subject shared"), "refused");
    }
    there.order("acquire subject exclusive");
    end.send(()).expect("the step still runs");
    assert_eq!(there.answer(), "granted");
}

async fn no_update_is_lost_between_processes() {
    let (deployment, table) = (Deployment::new(), format!("counter_{}", random()));
    let store = client(&url()).await;
    store.batch_execute(&format!("CREATE TABLE {table} AS SELECT 0::bigint AS n")).await.expect("created");
    let mut instances: Vec<_> = (0..3).map(|_| Instance::start(&deployment)).collect();
    for instance in &mut instances {
        instance.order(&format!("count {table} subject"));
    }
    let begin = Instant::now();
    for instance in &mut instances {
        assert_eq!(instance.answer(), "counted");
    }
    assert!(begin.elapsed() < PATIENCE);
    let n: i64 = store.query_one(&format!("SELECT n FROM {table}"), &[]).await.expect("an answer").get(0);
    store.batch_execute(&format!("DROP TABLE {table}")).await.expect("dropped");
    assert_eq!(n, 150);
}
