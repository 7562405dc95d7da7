use super::{
    cipher::{self, Secret},
    failure::Failure,
    key_service::{KeyName, KeyReply, KeyRequest, KeyService},
};
use async_trait::async_trait;
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// How long a key service takes to answer, in microseconds: what a hosted one in the same region does.
const LATENCY: std::ops::Range<u64> = 2_000..6_000;

/// The key service itself: keys in memory, each request on a task of its own.
///
/// A request takes effect at the end of its latency, whether or not who sent it still lives.
#[derive(Clone)]
pub(crate) struct Vault {
    keys: Arc<Mutex<HashMap<KeyName, Option<Secret>>>>,
    requests: TaskTracker,
    runtime: Handle,
}

impl Vault {
    /// A service without keys, which works on the caller's runtime.
    pub(crate) fn new() -> Self {
        Self { keys: Arc::default(), requests: TaskTracker::new(), runtime: Handle::current() }
    }

    /// The answer to a request, with its effect, at once.
    pub(crate) fn answer(&self, request: &KeyRequest) -> KeyReply {
        match request {
            KeyRequest::DataKey(name) => match *self.keys().entry(*name).or_insert_with(|| Some(cipher::fresh())) {
                None => KeyReply::Destroyed,
                Some(key) => {
                    let data_key = cipher::fresh();
                    match cipher::seal(&key, &name.to_string(), &data_key) {
                        Some(wrapped) => KeyReply::DataKey(data_key, wrapped),
                        None => KeyReply::Unreadable,
                    }
                }
            },
            KeyRequest::Unwrap(name, wrapped) => match self.keys().get(name) {
                Some(None) => KeyReply::Destroyed,
                Some(Some(key)) => cipher::open(key, &name.to_string(), wrapped)
                    .and_then(|data_key| Secret::try_from(data_key).ok())
                    .map_or(KeyReply::Unreadable, KeyReply::Unwrapped),
                None => KeyReply::Unreadable,
            },
            KeyRequest::Describe(name) => match self.keys().get(name) {
                Some(None) => KeyReply::Destroyed,
                Some(Some(_)) | None => KeyReply::Usable,
            },
            KeyRequest::Destroy(name) => {
                self.keys().insert(*name, None);
                KeyReply::Destroyed
            }
        }
    }

    /// Whether the key was destroyed.
    pub(crate) fn is_destroyed(&self, key: KeyName) -> bool {
        self.answer(&KeyRequest::Describe(key)) == KeyReply::Destroyed
    }

    /// Waits until every request that was sent has taken effect.
    pub(crate) async fn settle(&self) {
        self.requests.close();
        self.requests.wait().await;
        self.requests.reopen();
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<KeyName, Option<Secret>>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl KeyService for Vault {
    async fn ask(&self, request: KeyRequest) -> Result<KeyReply, Failure> {
        let vault = self.clone();
        let answering = async move {
            tokio::time::sleep(Duration::from_micros(rand::random_range(LATENCY))).await;
            vault.answer(&request)
        };
        let failed = |_| Failure::Unexpected("the key service gave a request up".into());
        self.requests.spawn_on(answering, &self.runtime).await.map_err(failed)
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vault").field("keys", &self.keys().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: KeyName = KeyName { subject: 1, generation: 0 };

    #[tokio::test]
    async fn a_data_key_is_unwrapped_until_its_wrapping_key_is_destroyed() {
        let vault = Vault::new();
        let (secret, wrapped) = vault.data_key(KEY).await.expect("answers").expect("usable");
        let unwrap = KeyRequest::Unwrap(KEY, wrapped);
        assert_eq!(vault.answer(&unwrap), KeyReply::Unwrapped(secret));
        vault.destroy(KEY).await.expect("answers");
        assert_eq!(vault.answer(&unwrap), KeyReply::Destroyed);
        assert_eq!(vault.data_key(KEY).await.expect("answers"), None);
    }

    #[tokio::test]
    async fn a_destroy_lands_although_its_sender_is_gone() {
        let vault = Vault::new();
        let asking = tokio::spawn({
            let vault = vault.clone();
            async move { vault.destroy(KEY).await }
        });
        tokio::task::yield_now().await;
        asking.abort();
        assert!(!vault.is_destroyed(KEY), "it takes its time");
        vault.settle().await;
        assert!(vault.is_destroyed(KEY));
    }
}
