//! The cluster's servers, a connection to each; one that does not answer in time is not waited for.
//!
//! The client's own balancing would keep giving requests to a server that is dead, or frozen with its connection open.
//! So one server is asked at a time: the one that answered last, then those after it. A server is opened when it is asked
//! for the first time, and the first that answers says which cluster the others have to belong to.

use crate::error::{classify, is_passing, needs_new_token};
use crate::health::{Health, look};
use coordinator_core::{Error, ErrorKind};
use etcd_client::{Client, ConnectOptions};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::OnceCell;
use tokio::time::{sleep, timeout};

/// How long one server is asked alone before the next is asked too.
const PATIENCE: Duration = Duration::from_secs(1);
/// After each of them has failed.
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(crate) struct Servers(Arc<Shared>);

struct Shared {
    servers: Vec<Server>,
    options: ConnectOptions,
    cluster: OnceLock<u64>,
    /// The one that answered last.
    preferred: AtomicUsize,
}

struct Server {
    endpoint: String,
    client: OnceCell<Client>,
}

/// What a server said, and whether others had been asked before it: the request may then have been done twice.
pub(crate) struct Answer<T> {
    pub(crate) value: T,
    pub(crate) is_first: bool,
}

impl Servers {
    pub(crate) fn new(endpoints: Vec<String>, options: ConnectOptions) -> Self {
        let server = |endpoint| Server { endpoint, client: OnceCell::new() };
        let servers = endpoints.into_iter().map(server).collect();
        Self(Arc::new(Shared { servers, options, cluster: OnceLock::new(), preferred: AtomicUsize::new(0) }))
    }

    /// The same servers over connections of their own, another one first.
    pub(crate) fn apart(&self) -> Self {
        let endpoints = self.0.servers.iter().map(|server| server.endpoint.clone()).collect();
        let apart = Self::new(endpoints, self.0.options.clone());
        apart.0.preferred.store(self.preferred() + 1, Ordering::Relaxed);
        apart
    }

    /// Looks at every server.
    ///
    /// # Errors
    /// `Invalid` if one of them can't be the lock's; `Unavailable` if none answers.
    pub(crate) async fn check(&self, limit: Duration) -> Result<(), Error> {
        let looks = self.0.servers.iter().map(|server| timeout(limit, server.client(&self.0)));
        let mut found = Err(Error::new(ErrorKind::Unavailable, "connect", "the servers did not answer in time"));
        for (server, outcome) in self.0.servers.iter().zip(futures_util::future::join_all(looks).await) {
            match outcome {
                Ok(Ok(_)) => found = Ok(()),
                Ok(Err(Refused::Unfit(error))) => return Err(error),
                Ok(Err(Refused::Failed(error))) if !is_passing(&error) => return Err(classify("connect", error)),
                Ok(Err(Refused::Failed(error))) => {
                    tracing::warn!(endpoint = server.endpoint, %error, "a server of the cluster does not answer");
                    found = found.map_err(|_| classify("connect", error));
                }
                Err(_) => tracing::warn!(endpoint = server.endpoint, "a server of the cluster does not answer"),
            }
        }
        found
    }

    /// Asks the preferred server, and it alone: for what must not be done twice.
    ///
    /// # Errors
    /// Whether it was done is known only if the error [is not passing](is_passing).
    pub(crate) async fn ask_once<T, F>(&self, limit: Duration, ask: impl Fn(Client) -> F) -> Result<T, Refused>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let at = self.preferred();
        let outcome = timeout(limit, self.attempt(at, Duration::ZERO, &ask)).await;
        match &outcome {
            Ok((_, Err(Refused::Failed(error)))) if is_passing(error) => self.avoid(at),
            Err(_) => self.avoid(at),
            Ok(_) => {}
        }
        let silent = || Refused::Unfit(Error::new(ErrorKind::Unavailable, "lock", "the server did not answer in time"));
        outcome.map_or_else(|_| Err(silent()), |(_, outcome)| outcome)
    }

    /// Asks one server after the other until one answers, each while those before it may still do so: `ask` may be done
    /// several times, also after the answer.
    ///
    /// # Errors
    /// What can't pass, as it comes; after `limit` the last that could.
    pub(crate) async fn ask<T, F>(
        &self,
        operation: &'static str,
        limit: Duration,
        ask: impl Fn(Client) -> F,
    ) -> Result<Answer<T>, Error>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        self.ask_any(limit, ask).await.map_err(|refused| refused.told(operation))
    }

    /// As [`ask`](Self::ask), with the client's own error.
    pub(crate) async fn ask_any<T, F>(&self, limit: Duration, ask: impl Fn(Client) -> F) -> Result<Answer<T>, Refused>
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        let (count, first) = (self.0.servers.len(), self.preferred());
        let (mut asked, mut failed) = (0, 0);
        let mut last = Refused::Unfit(Error::new(ErrorKind::Unavailable, "ask", "no server answered in time"));
        let mut open = FuturesUnordered::new();
        let over = sleep(limit);
        tokio::pin!(over);
        loop {
            let delay = if failed > 0 && failed % count == 0 { PAUSE } else { Duration::ZERO };
            open.push(self.attempt(first + asked, delay, &ask));
            asked += 1;
            tokio::select! {
                biased;
                Some((at, outcome)) = open.next() => match outcome {
                    Ok(value) => {
                        self.0.preferred.store(at, Ordering::Relaxed);
                        return Ok(Answer { value, is_first: asked == 1 });
                    }
                    Err(Refused::Failed(error)) if is_passing(&error) => {
                        self.avoid(at);
                        failed += 1;
                        last = Refused::Failed(error);
                    }
                    Err(refused) => return Err(refused),
                },
                () = &mut over => return Err(last),
                () = sleep(PATIENCE) => self.avoid(first + asked - 1),
            }
        }
    }

    /// A connection to the server that answered last.
    pub(crate) async fn client(&self) -> Result<Client, Refused> {
        self.0.servers[self.preferred() % self.0.servers.len()].client(&self.0).await
    }

    /// The next ones ask another server first.
    pub(crate) fn avoid_preferred(&self) {
        self.avoid(self.preferred());
    }

    fn preferred(&self) -> usize {
        self.0.preferred.load(Ordering::Relaxed)
    }

    fn avoid(&self, at: usize) {
        let next = at.wrapping_add(1);
        // Unless somebody has found one that answers meanwhile.
        let _ = self.0.preferred.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    async fn attempt<T, F>(&self, at: usize, delay: Duration, ask: impl Fn(Client) -> F) -> (usize, Result<T, Refused>)
    where
        F: Future<Output = Result<T, etcd_client::Error>>,
    {
        if !delay.is_zero() {
            sleep(delay).await;
        }
        let client = match self.0.servers[at % self.0.servers.len()].client(&self.0).await {
            Ok(client) => client,
            Err(refused) => return (at, Err(refused)),
        };
        let outcome = match ask(client.clone()).await {
            Err(error) if needs_new_token(&error) && client.refresh_token().await.is_ok() => ask(client).await,
            outcome => outcome,
        };
        (at, outcome.map_err(Refused::Failed))
    }
}

impl Server {
    /// The connection, opened and looked at the first time.
    async fn client(&self, shared: &Shared) -> Result<Client, Refused> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        // Boxed, since it is large and happens once.
        let open = Box::pin(async {
            let options = shared.options.clone();
            let client = Client::connect([&self.endpoint], Some(options)).await.map_err(Refused::Failed)?;
            let Health { cluster } = look(&client, &self.endpoint).await?;
            if *shared.cluster.get_or_init(|| cluster) == cluster {
                return Ok(client);
            }
            let message = format!("{} belongs to another cluster than the other endpoints", self.endpoint);
            Err(Refused::Unfit(Error::new(ErrorKind::Invalid, "connect", message)))
        });
        self.client.get_or_try_init(|| open).await.cloned()
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Refused {
    Failed(etcd_client::Error),
    /// Said by this crate.
    Unfit(Error),
}

impl Refused {
    pub(crate) fn told(self, operation: &'static str) -> Error {
        match self {
            Self::Failed(error) => classify(operation, error),
            Self::Unfit(error) => error,
        }
    }
}
