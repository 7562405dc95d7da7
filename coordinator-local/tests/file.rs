//! What `FileCoordinator` promises beyond the conformance suite.
#![cfg(target_os = "linux")]

use coordinator_local::{
    ErasureCoordinator, ErasureCoordinatorExt, ErrorKind, FileCoordinator, LossReason, Mode, Upkeep,
};
use coordinator_testkit::{Handle, PATIENCE, fresh_scope, is_free, somebody_waits, soon};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use tempfile::TempDir;

fn directory() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

fn open(directory: &TempDir) -> Arc<FileCoordinator> {
    Arc::new(FileCoordinator::open(directory.path()).expect("opened"))
}

#[tokio::test]
async fn no_file_is_left_by_a_scope() {
    let directory = directory();
    let coordinator = open(&directory);
    for _ in 0..5_000 {
        coordinator.acquire(&fresh_scope(), Mode::Exclusive).await.expect("no failure").release().await.expect("held");
    }
    coordinator.acquire(&fresh_scope(), Mode::Shared).await.expect("no failure").fence().await.expect("a token");
    let mut files: Vec<_> = fs::read_dir(directory.path())
        .expect("readable")
        .flatten()
        .map(|file| (file.file_name().into_string().expect("a name"), file.metadata().expect("metadata").len()))
        .collect();
    files.sort();
    assert_eq!(files, [("fence".to_owned(), 8), ("scopes.lock".to_owned(), 0)]);
    tokio::time::timeout(PATIENCE, async {
        while coordinator.scopes() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await
    .expect("all are free");
}

#[tokio::test]
async fn at_the_cap_of_scopes_a_caller_waits_and_is_then_told() {
    let directory = directory();
    let mut options = FileCoordinator::options();
    (options.most_scopes, options.wait_for_room) = (Some(2), Duration::from_millis(150));
    let coordinator: Handle = Arc::new(FileCoordinator::open_with(directory.path(), options).expect("opened"));
    let (one, two) = (soon(&coordinator, &fresh_scope(), Mode::Shared).await, fresh_scope());
    let second = soon(&coordinator, &two, Mode::Shared).await;
    let begin = Instant::now();
    let error = coordinator.acquire(&fresh_scope(), Mode::Shared).await.expect_err("no room");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(begin.elapsed() >= Duration::from_millis(150));
    drop(soon(&coordinator, &two, Mode::Shared).await); // a scope that has room already
    let waits = tokio::spawn({
        let coordinator = Arc::clone(&coordinator);
        async move { coordinator.acquire(&fresh_scope(), Mode::Shared).await }
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(one);
    drop(waits.await.expect("no panic").expect("room was made"));
    drop(second);
    let three = [(); 3].map(|()| (fresh_scope(), Mode::Shared));
    assert_eq!(coordinator.acquire_all(&three).await.expect_err("more than ever").kind(), ErrorKind::Invalid);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_callers_that_need_the_whole_room_do_not_deadlock() {
    let directory = directory();
    let mut options = FileCoordinator::options();
    options.most_scopes = Some(4);
    let coordinator: Handle = Arc::new(FileCoordinator::open_with(directory.path(), options).expect("opened"));
    let callers: Vec<_> = (0..3)
        .map(|_| {
            let coordinator = Arc::clone(&coordinator);
            tokio::spawn(async move {
                for _ in 0..20 {
                    let wanted = [(); 4].map(|()| (fresh_scope(), Mode::Exclusive));
                    coordinator.acquire_all(&wanted).await.expect("room in the end").release().await.expect("held");
                }
            })
        })
        .collect();
    for caller in callers {
        tokio::time::timeout(PATIENCE, caller).await.expect("no deadlock").expect("no panic");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_learns_that_the_lock_file_was_removed() {
    let directory = directory();
    let (one, two): (Handle, Handle) = (open(&directory), open(&directory));
    let file = directory.path().join("scopes.lock");
    let lost = ErrorKind::Lost(LossReason::NotHeld);
    // Asked, each in its way.
    let scope = fresh_scope();
    let lease = soon(&one, &scope, Mode::Exclusive).await;
    fs::remove_file(&file).expect("removed");
    assert_eq!(lease.verify(Duration::ZERO).await.expect_err("not held").kind(), lost);
    assert!(lease.ensure_live().is_err());
    is_free(&two, &scope).await;
    is_free(&one, &scope).await;
    let lease = soon(&one, &scope, Mode::Exclusive).await;
    assert!(two.try_acquire(&scope, Mode::Shared).await.expect("an answer").is_none(), "both use the new file");
    fs::remove_file(&file).expect("removed");
    assert_eq!(lease.fence().await.expect_err("not held").kind(), lost);
    let lease = soon(&one, &scope, Mode::Exclusive).await;
    fs::rename(&file, directory.path().join("old")).expect("renamed");
    fs::write(&file, "").expect("written");
    assert_eq!(lease.release().await.expect_err("not held").kind(), lost);
    // Unasked.
    let lease = soon(&one, &scope, Mode::Exclusive).await;
    fs::remove_file(&file).expect("removed");
    let told = tokio::time::timeout(PATIENCE, lease.lost()).await.expect("told");
    assert_eq!(told, LossReason::NotHeld);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_in_a_removed_lock_file_is_served_in_the_new_one() {
    let directory = directory();
    let (one, two): (Handle, Handle) = (open(&directory), open(&directory));
    let scope = fresh_scope();
    let lease = soon(&one, &scope, Mode::Exclusive).await;
    let waiter = tokio::spawn(async move { drop(soon(&two, &scope, Mode::Exclusive).await) });
    somebody_waits(&one, &scope).await;
    fs::remove_file(directory.path().join("scopes.lock")).expect("removed");
    waiter.await.expect("served");
    drop(lease);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_waits_rightly_is_not_taken_for_a_stopped_one() {
    let directory = directory();
    let (one, two, three): (Handle, Handle, Handle) = (open(&directory), open(&directory), open(&directory));
    let scope = fresh_scope();
    let lease = soon(&one, &scope, Mode::Shared).await;
    let waiter = tokio::spawn(async move { soon(&two, &scope, Mode::Exclusive).await });
    somebody_waits(&one, &scope).await;
    let passed = three.acquire_within(&scope, Mode::Shared, Duration::from_secs(2)).await.expect("an answer");
    assert!(passed.is_none(), "it passed an exclusive waiter");
    drop(lease);
    drop(waiter.await.expect("served"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_the_runtime_that_the_coordinator_runs_on_frees_all() {
    let directory = directory();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let mut options = FileCoordinator::options();
    options.upkeep = Upkeep::On(runtime.handle().clone());
    let (one, two) = (FileCoordinator::open_with(directory.path(), options).expect("opened"), open(&directory));
    let scope = fresh_scope();
    let lease = one.acquire(&scope, Mode::Exclusive).await.expect("no failure");
    assert!(two.try_acquire(&scope, Mode::Shared).await.expect("an answer").is_none());
    tokio::task::spawn_blocking(move || drop(runtime)).await.expect("no panic");
    assert!(lease.ensure_live().expect_err("lost").is_lost());
    is_free(&(two as Handle), &scope).await;
}

#[tokio::test]
async fn a_removed_directory_is_told_and_can_be_made_again() {
    let directory = directory();
    let inner = directory.path().join("a/b");
    let coordinator: Handle = Arc::new(FileCoordinator::open(&inner).expect("created with its parents"));
    assert_eq!(fs::metadata(&inner).expect("there").permissions().mode() & 0o777, 0o700);
    let scope = fresh_scope();
    fs::remove_dir_all(&inner).expect("removed");
    let error = coordinator.acquire(&scope, Mode::Exclusive).await.expect_err("nowhere to lock");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    fs::create_dir(&inner).expect("created");
    is_free(&coordinator, &scope).await;
}

#[test]
fn a_directory_that_can_not_be_used_is_refused_with_the_reason() {
    let directory = directory();
    let file = directory.path().join("file");
    fs::write(&file, "").expect("written");
    let refused = |path: &Path| FileCoordinator::open(path).expect_err("refused");
    assert_eq!(refused(&file.join("below")).kind(), ErrorKind::Invalid);
    fs::create_dir_all(directory.path().join("taken/scopes.lock")).expect("created");
    assert_eq!(refused(&directory.path().join("taken")).kind(), ErrorKind::Invalid);
    fs::create_dir(directory.path().join("linked")).expect("created");
    std::os::unix::fs::symlink(&file, directory.path().join("linked/scopes.lock")).expect("linked");
    assert_eq!(refused(&directory.path().join("linked")).kind(), ErrorKind::Invalid);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_of_a_new_coordinator_follows_those_before_it() {
    let directory = directory();
    let scope = fresh_scope();
    for expected in 1..=3 {
        let coordinator = open(&directory);
        let lease = coordinator.acquire(&scope, Mode::Exclusive).await.expect("no failure");
        assert_eq!(lease.fence().await.expect("a token").get(), expected);
    }
    fs::write(directory.path().join("fence"), "short").expect("written");
    let error = soon(&(open(&directory) as Handle), &scope, Mode::Shared).await.fence().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
