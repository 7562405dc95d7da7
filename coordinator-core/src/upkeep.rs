use std::{sync::OnceLock, time::Duration};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

/// Where a coordinator's own tasks run: sessions, heartbeats, renewals.
#[derive(Clone, Debug, Default)]
pub enum Upkeep {
    /// A thread of the process, shared by all coordinators: a blocked or dropped runtime of a caller loses no lease.
    #[default]
    Process,
    /// A given runtime. It saves a thread hop per request; what it costs: a runtime whose workers are all blocked
    /// for longer than a lease's deadline loses the leases, and dropping it loses them at once.
    On(Handle),
}

// A static is never dropped: dropping a runtime in async context panics.
static UPKEEP: OnceLock<Runtime> = OnceLock::new();
static STEPS: OnceLock<Runtime> = OnceLock::new();

impl Upkeep {
    /// Runs `future` to its end, whatever happens to the caller.
    ///
    /// # Panics
    /// If the operating system refuses a thread for [`Upkeep::Process`].
    pub fn spawn<T: Send + 'static>(&self, future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        let handle = match self {
            Self::On(handle) => handle,
            Self::Process => UPKEEP.get_or_init(|| start("coordinator-upkeep", 1)).handle(),
        };
        handle.spawn(future)
    }

    /// A timer that needs no runtime of the caller's; over at once when the upkeep's own is shut down.
    ///
    /// # Panics
    /// If the operating system refuses a thread for [`Upkeep::Process`].
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + 'static + use<> {
        let upkeep = self.clone();
        async move {
            // A task of its own: a timer that is polled elsewhere panics once its runtime is shut down.
            let timer = upkeep.spawn(async move { tokio::time::sleep(duration).await });
            let _ = AbortOnDropHandle::new(timer).await;
        }
    }
}

/// Irreversible steps are the user's code: it may block its thread, so it gets others than the upkeep's.
pub(crate) fn steps() -> &'static Handle {
    STEPS.get_or_init(|| start("coordinator-step", 2)).handle()
}

fn start(name: &str, workers: usize) -> Runtime {
    let started = Builder::new_multi_thread().worker_threads(workers).thread_name(name).enable_all().build();
    started.expect("the operating system gives a thread")
}
