//! A future that the test polls by hand, and what its waker saw.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

pub struct Caller<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    wakes: Arc<Wakes>,
    seen: Option<u64>,
}

/// Counts the wakes; may act inside one, as an executor that drops a task there does.
#[derive(Default)]
struct Wakes {
    count: AtomicU64,
    act: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.count.fetch_add(1, Ordering::SeqCst);
        let act = self.act.lock().expect("not poisoned").take();
        if let Some(act) = act {
            act();
        }
    }
}

impl<T> Caller<T> {
    /// Not polled yet.
    pub fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self { future: Box::pin(future), wakes: Arc::default(), seen: None }
    }

    /// What the next wake does before it returns.
    pub fn on_wake(&self, act: impl FnOnce() + Send + 'static) {
        *self.wakes.act.lock().expect("not poisoned") = Some(Box::new(act));
    }

    /// Whether a poll is due: never polled, or woken since.
    pub fn is_due(&self) -> bool {
        self.seen.is_none_or(|seen| seen != self.wakes.count.load(Ordering::SeqCst))
    }

    pub fn is_begun(&self) -> bool {
        self.seen.is_some()
    }

    /// Polls; whoever becomes ready without having been woken would have been forgotten by an executor.
    pub fn poll(&mut self) -> Poll<T> {
        let was_due = self.is_due();
        self.seen = Some(self.wakes.count.load(Ordering::SeqCst));
        let waker = Waker::from(Arc::clone(&self.wakes));
        let polled = self.future.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(was_due || polled.is_pending(), "ready, and was not woken");
        polled
    }

    /// # Panics
    /// If it is not ready.
    pub fn ready(&mut self) -> T {
        match self.poll() {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("not ready"),
        }
    }

    pub fn is_pending(&mut self) -> bool {
        self.poll().is_pending()
    }
}
