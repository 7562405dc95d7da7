//! What `FileCoordinator` promises between processes, with real ones that are killed and stopped.
#![cfg(target_os = "linux")]

mod child;

use child::Other;
use coordinator_local::{ErasureCoordinator, ErasureCoordinatorExt, FileCoordinator, Lease, Mode, Scope};
use libtest_mimic::{Arguments, Failed, Trial};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use std::{
    os::unix::process::ExitStatusExt,
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

const SCOPE: &str = "tenant-7/subject-42";
const PATIENCE: Duration = Duration::from_secs(20);
const MOMENT: Duration = Duration::from_millis(100);

/// This process: a coordinator over a directory, and a runtime to call it from.
struct This {
    coordinator: Arc<FileCoordinator>,
    scope: Scope,
    runtime: Runtime,
}

impl This {
    fn open(directory: &Path) -> Self {
        Self {
            coordinator: Arc::new(FileCoordinator::open(directory).expect("opened")),
            scope: Scope::new(SCOPE).expect("a valid name"),
            runtime: Runtime::new().expect("a runtime"),
        }
    }

    fn within(&self, mode: Mode, limit: Duration) -> Option<Lease> {
        self.runtime.block_on(self.coordinator.acquire_within(&self.scope, mode, limit)).expect("no failure")
    }

    fn soon(&self, mode: Mode) -> Lease {
        self.within(mode, PATIENCE).expect("to be had")
    }

    fn tries(&self, mode: Mode) -> Option<Lease> {
        self.runtime.block_on(self.coordinator.try_acquire(&self.scope, mode)).expect("an answer")
    }

    fn release(&self, lease: Lease) {
        self.runtime.block_on(lease.release()).expect("held to the end");
    }

    fn sees_a_waiter(&self) {
        let deadline = Instant::now() + PATIENCE;
        while self.runtime.block_on(self.coordinator.inspect(&self.scope)).expect("an answer").waiters.is_empty() {
            assert!(Instant::now() < deadline, "nobody waits");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn processes_exclude_each_other_in_both_directions(directory: &Path) {
    let this = This::open(directory);
    let mut other = Other::holding(directory, SCOPE, Mode::Exclusive);
    for mode in [Mode::Exclusive, Mode::Shared] {
        assert!(this.tries(mode).is_none());
        assert!(this.within(mode, MOMENT).is_none());
    }
    assert_eq!(other.told("release"), "released");
    let lease = this.soon(Mode::Exclusive);
    let mut other = Other::wanting(directory, SCOPE, Mode::Shared);
    this.sees_a_waiter();
    assert!(other.has_said_nothing_for(MOMENT));
    this.release(lease);
    other.says("holds");
    assert_eq!(other.told("release"), "released");
}

fn processes_share(directory: &Path) {
    let this = This::open(directory);
    let others: Vec<_> = (0..3).map(|_| Other::holding(directory, SCOPE, Mode::Shared)).collect();
    let lease = this.tries(Mode::Shared).expect("shared leases coexist");
    assert!(this.tries(Mode::Exclusive).is_none());
    this.release(lease);
    for mut other in others {
        assert!(this.tries(Mode::Exclusive).is_none());
        assert_eq!(other.told("release"), "released");
    }
    drop(this.soon(Mode::Exclusive));
}

fn a_flow_of_shared_leases_here_does_not_starve_another_process(directory: &Path) {
    let this = This::open(directory);
    let stop = Arc::new(AtomicBool::new(false));
    // Four that overlap: without a queue there is no gap for anybody else.
    let flow: Vec<_> = (0..4)
        .map(|_| {
            let (coordinator, scope, stop) = (Arc::clone(&this.coordinator), this.scope, Arc::clone(&stop));
            this.runtime.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let _lease = coordinator.acquire(&scope, Mode::Shared).await.expect("no failure");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            })
        })
        .collect();
    for _ in 0..3 {
        let mut other = Other::holding(directory, SCOPE, Mode::Exclusive);
        assert_eq!(other.told("release"), "released");
    }
    stop.store(true, Ordering::Relaxed);
    for task in flow {
        this.runtime.block_on(task).expect("no panic");
    }
}

fn a_killed_holder_frees_at_once(directory: &Path) {
    let this = This::open(directory);
    let mut took: Vec<_> = (0..20)
        .map(|_| {
            let other = Other::holding(directory, SCOPE, Mode::Exclusive);
            let waits = thread::scope(|scope| {
                let waiter = scope.spawn(|| {
                    let lease = this.soon(Mode::Exclusive);
                    let at = Instant::now();
                    this.release(lease);
                    at
                });
                thread::sleep(Duration::from_millis(200));
                let killed = Instant::now();
                other.signal(Signal::SIGKILL);
                waiter.join().expect("no panic") - killed
            });
            assert_eq!(other.end().signal(), Some(Signal::SIGKILL as i32), "the killer works");
            waits
        })
        .collect();
    took.sort();
    println!("next holder after SIGKILL: p50 {:?}, most {:?} of {}", took[10], took[19], took.len());
    assert!(took[10] < Duration::from_millis(100), "{took:?}");
}

fn a_killed_waiter_is_out_of_the_way(directory: &Path) {
    let this = This::open(directory);
    for _ in 0..5 {
        let lease = this.soon(Mode::Exclusive);
        let killed = Other::wanting(directory, SCOPE, Mode::Exclusive);
        this.sees_a_waiter(); // it stands in the turnstile
        let mut behind = Other::wanting(directory, SCOPE, Mode::Shared);
        killed.signal(Signal::SIGKILL);
        killed.end();
        this.release(lease);
        behind.says("holds");
        assert_eq!(behind.told("release"), "released");
        drop(this.soon(Mode::Exclusive));
    }
}

fn a_stopped_waiter_delays_others_and_does_not_block_them(directory: &Path) {
    let this = This::open(directory);
    let lease = this.soon(Mode::Exclusive);
    let mut other = Other::wanting(directory, SCOPE, Mode::Exclusive);
    this.sees_a_waiter();
    other.signal(Signal::SIGSTOP);
    this.release(lease);
    for mode in [Mode::Exclusive, Mode::Shared] {
        let begin = Instant::now();
        let lease = this.within(mode, Duration::from_secs(5)).expect("not blocked");
        println!("passed a stopped waiter after {:?}", begin.elapsed());
        this.release(lease);
    }
    let lease = this.soon(Mode::Exclusive);
    other.signal(Signal::SIGCONT);
    assert!(other.has_said_nothing_for(MOMENT), "two holders");
    this.release(lease);
    other.says("holds");
    assert!(this.tries(Mode::Shared).is_none());
    assert_eq!(other.told("release"), "released");
}

fn a_stopped_holder_keeps_its_scope(directory: &Path) {
    let this = This::open(directory);
    let mut other = Other::holding(directory, SCOPE, Mode::Exclusive);
    other.signal(Signal::SIGSTOP);
    assert!(this.within(Mode::Shared, Duration::from_millis(1500)).is_none());
    other.signal(Signal::SIGCONT);
    assert_eq!(other.told("release"), "released");
    drop(this.soon(Mode::Exclusive));
}

fn a_program_that_a_holder_started_inherits_nothing(directory: &Path) {
    let this = This::open(directory);
    let mut other = Other::holding(directory, SCOPE, Mode::Exclusive);
    let program = Pid::from_raw(other.told("start a program").parse().expect("a process id"));
    other.signal(Signal::SIGKILL);
    other.end();
    let lease = this.within(Mode::Exclusive, PATIENCE);
    kill(program, Signal::SIGKILL).expect("it still runs");
    drop(lease.expect("free"));
}

fn tokens_grow_across_processes_that_are_killed(directory: &Path) {
    let this = This::open(directory);
    let mut last = 0;
    for _ in 0..5 {
        let mut other = Other::holding(directory, SCOPE, Mode::Exclusive);
        for _ in 0..2 {
            let token: u64 = other.told("fence").parse().expect("a token");
            assert!(token > last, "{token} after {last}");
            last = token;
        }
        other.signal(Signal::SIGKILL);
        other.end();
        let lease = this.soon(Mode::Exclusive);
        let token = this.runtime.block_on(lease.fence()).expect("a token").get();
        assert!(token > last, "{token} after {last}");
        last = token;
        this.release(lease);
    }
}

fn main() -> ExitCode {
    if child::is_played() {
        return ExitCode::SUCCESS;
    }
    macro_rules! trials {
        ($($case:ident),* $(,)?) => { vec![$(trial(stringify!($case), $case)),*] };
    }
    let trials = trials![
        processes_exclude_each_other_in_both_directions,
        processes_share,
        a_flow_of_shared_leases_here_does_not_starve_another_process,
        a_killed_holder_frees_at_once,
        a_killed_waiter_is_out_of_the_way,
        a_stopped_waiter_delays_others_and_does_not_block_them,
        a_stopped_holder_keeps_its_scope,
        a_program_that_a_holder_started_inherits_nothing,
        tokens_grow_across_processes_that_are_killed,
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(name: &str, case: fn(&Path)) -> Trial {
    Trial::test(name, move || {
        let directory = tempfile::tempdir().map_err(Failed::from)?;
        case(directory.path());
        Ok(())
    })
}
