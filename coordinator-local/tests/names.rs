//! Alone in its process: the subscriber is global, because events come from the upkeep thread too.
#![cfg(target_os = "linux")]

use coordinator_local::{
    ErasureCoordinator, ErasureCoordinatorExt, FileCoordinator, LocalCoordinator, Mode, Scope, under_lock,
};
use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};
use tracing_subscriber::{filter::LevelFilter, fmt::MakeWriter};

const NAME: &str = "a-name-that-must-not-leave";

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl Captured {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("not poisoned").clone()).expect("UTF-8")
    }
}

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("not poisoned").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Captured {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_name_of_a_scope_is_in_no_event_no_debug_output_and_no_file() {
    let captured = Captured::default();
    tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(captured.clone()).init();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let scope = Scope::new(NAME).expect("a valid name");
    let coordinators: [Arc<dyn ErasureCoordinator>; 2] =
        [Arc::new(LocalCoordinator::new()), Arc::new(FileCoordinator::open(directory.path()).expect("opened"))];
    let mut seen = Vec::new();
    for coordinator in &coordinators {
        let lease = coordinator.acquire(&scope, Mode::Exclusive).await.expect("no failure");
        seen.push(format!("{coordinator:?} {lease:?} {scope:?} {scope}"));
        assert!(coordinator.try_acquire(&scope, Mode::Shared).await.expect("an answer").is_none());
        let limit = Duration::from_millis(20);
        assert!(coordinator.acquire_within(&scope, Mode::Shared, limit).await.expect("an answer").is_none());
        lease.fence().await.expect("a token");
        lease.release().await.expect("held to the end");
        let twice = [(scope, Mode::Shared), (scope, Mode::Shared)];
        seen.push(format!("{:?}", coordinator.acquire_all(&twice).await.expect_err("refused")));
        let nested = under_lock(coordinator, &scope, Mode::Shared, async |_| {
            under_lock(coordinator, &scope, Mode::Shared, async |_| Ok::<_, coordinator_local::Error>(())).await
        });
        seen.push(format!("{:?}", nested.await.expect_err("refused")));
        let lease = coordinator.acquire(&scope, Mode::Exclusive).await.expect("no failure");
        seen.push(format!("{:?}", coordinator.shutdown(Duration::ZERO).await.expect("shut down")));
        seen.push(format!("{:?}", lease.verify(Duration::ZERO).await.expect_err("lost")));
        seen.push(format!("{:?}", coordinator.acquire(&scope, Mode::Shared).await.expect_err("refused")));
    }
    let events = captured.text();
    assert!(events.contains(&scope.to_string()) && events.contains("lost"), "nothing was captured: {events}");
    assert!(!events.contains(NAME), "{events}");
    let seen = seen.join("\n");
    assert!(!seen.contains(NAME), "{seen}");
    for file in std::fs::read_dir(directory.path()).expect("readable").flatten() {
        assert!(!file.file_name().to_string_lossy().contains(NAME));
        assert!(!String::from_utf8_lossy(&std::fs::read(file.path()).expect("readable")).contains(NAME));
    }
}
