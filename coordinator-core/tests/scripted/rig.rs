//! A coordinator over the scripted driver, all of it on the test's own thread.

use super::caller::Caller;
use super::{Backed, Parked, Scripted};
use coordinator_core::{Cohort, CohortOptions, ErasureCoordinator, Error, Lease, Mode, Scope, Upkeep};
use std::future::Future;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

pub type Asking = Caller<Result<Option<Lease>, Error>>;

pub struct Rig {
    pub script: Scripted,
    pub coordinator: Arc<Backed>,
    revoked: UnboundedSender<Scope>,
    runtime: Option<Runtime>,
}

pub const FOREVER: Duration = Duration::from_secs(1_000_000);

pub fn scope(name: &str) -> Scope {
    Scope::new(name).expect("a valid name")
}

/// Windows that never end, unless the test says otherwise.
pub fn options(window: Duration, longest_tenure: Duration) -> CohortOptions {
    let mut options = CohortOptions::default();
    options.window = window;
    options.longest_tenure = longest_tenure;
    options
}

/// Runs what must not deadlock; a deadlock is a failure that names it.
pub fn within_a_minute(what: &str, body: impl FnOnce() + Send + 'static) {
    let (tell, told) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        body();
        let _ = tell.send(());
    });
    match told.recv_timeout(Duration::from_secs(60)) {
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("deadlock: {what}"),
        _ => thread.join().expect("no panic"),
    }
}

impl Rig {
    pub fn new() -> Self {
        Self::with(options(FOREVER, FOREVER))
    }

    pub fn with(mut options: CohortOptions) -> Self {
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        options.upkeep = Upkeep::On(runtime.handle().clone());
        let script = Scripted::default();
        let coordinator = Arc::new(Backed(Cohort::new(script.clone(), options)));
        let (revoked, heeded) = unbounded_channel();
        coordinator.0.heed(heeded);
        Self { script, coordinator, revoked, runtime: Some(runtime) }
    }

    pub fn scopes(&self) -> usize {
        self.coordinator.0.scopes()
    }

    /// Runs the upkeep until it has nothing to do.
    pub fn settle(&self) {
        // What the test's thread spawns or wakes waits in the global queue.
        if self.runtime.as_ref().is_some_and(|runtime| runtime.metrics().global_queue_depth() > 0) {
            self.pass(Duration::ZERO);
        }
        self.script.assert_promises_kept();
    }

    /// Lets this much of the upkeep's time pass.
    pub fn pass(&self, time: Duration) {
        let Some(runtime) = &self.runtime else { return };
        runtime.block_on(async {
            if !time.is_zero() {
                tokio::time::sleep(time).await;
            }
            // The longest chain: an answer, what is asked next, that it is parked.
            for _ in 0..6 {
                tokio::task::yield_now().await;
            }
        });
    }

    /// The backend says that who holds the scope is to give up.
    pub fn revoke(&self, scope: Scope) {
        let _ = self.revoked.send(scope); // nobody hears it without an upkeep
        self.settle();
    }

    /// Shuts the upkeep runtime down; with it end the sessions that a driver keeps there.
    pub fn end_upkeep(&mut self) {
        self.script.script().runtime_is_gone = true;
        drop(self.runtime.take());
        self.script.script().parked.clear(); // who asked is gone
    }

    /// Asks, without a first poll.
    pub fn asking(&self, scope: Scope, mode: Mode, is_try: bool) -> Asking {
        let coordinator = Arc::clone(&self.coordinator);
        Caller::new(async move {
            if is_try {
                coordinator.try_acquire(&scope, mode).await
            } else {
                coordinator.acquire(&scope, mode).await.map(Some)
            }
        })
    }

    /// An acquire of `s` that was polled once and has to wait.
    pub fn waits(&self, mode: Mode) -> Asking {
        let mut asking = self.asking(scope("s"), mode, false);
        assert!(asking.is_pending());
        asking
    }

    /// A try of `s` that was polled once and has to wait for an answer of the driver.
    pub fn tries(&self, mode: Mode) -> Asking {
        let mut asking = self.asking(scope("s"), mode, true);
        assert!(asking.is_pending());
        asking
    }

    /// A lease of `s`, granted by the driver.
    pub fn holds(&self, mode: Mode) -> Lease {
        let mut asking = self.waits(mode);
        self.take("try_lock").agree();
        self.granted(&mut asking)
    }

    /// A lease of `s` that is granted without asking the driver.
    pub fn joins(&self, mode: Mode) -> Lease {
        granted(self.asking(scope("s"), mode, false).ready())
    }

    pub fn granted(&self, asking: &mut Asking) -> Lease {
        self.settle();
        granted(asking.ready())
    }

    /// The one request that is parked.
    pub fn take(&self, name: &str) -> Parked {
        self.settle();
        let mut parked = std::mem::take(&mut self.script.script().parked);
        let names: Vec<_> = parked.iter().map(|parked| parked.asked.name()).collect();
        assert_eq!(names, [name]);
        parked.remove(0)
    }

    /// What is parked, in the order in which it was asked.
    pub fn parked(&self) -> Vec<&'static str> {
        self.settle();
        self.script.script().parked.iter().map(|parked| parked.asked.name()).collect()
    }

    /// Answers all requests as everybody hopes, until there are none.
    pub fn agree_to_all(&self) {
        while !self.parked().is_empty() {
            let parked = self.script.script().parked.remove(0);
            parked.agree();
        }
    }

    /// Nothing is held, queued or asked any more.
    pub fn assert_over(&self) {
        self.agree_to_all();
        assert_eq!(self.scopes(), 0);
        assert_eq!(self.script.live(), []);
    }

    /// What a caller gets from the upkeep.
    pub fn told<T>(&self, caller: &mut Caller<T>) -> T {
        self.settle();
        caller.ready()
    }

    /// Every request is answered as everybody hopes, from here on.
    pub fn automatic(self) -> Self {
        self.script.script().automatic = true;
        self
    }

    /// Runs a future to its end, and the upkeep with it.
    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let output = self.runtime.as_ref().expect("not shut down").block_on(future);
        self.pass(Duration::ZERO);
        output
    }

    /// Waits for what another thread brings about.
    pub fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !holds() {
            assert!(Instant::now() < deadline, "not within a minute: {what}");
            self.settle();
            std::thread::yield_now();
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.script.script().runtime_is_gone = true;
    }
}

pub fn granted(answer: Result<Option<Lease>, Error>) -> Lease {
    answer.expect("no error").expect("granted")
}
