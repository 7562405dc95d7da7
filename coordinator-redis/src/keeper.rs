use crate::books::Books;
use crate::connect::Connected;
use crate::error::classify;
use crate::grant::Entry;
use crate::link::{Failure, Link};
use crate::scripts::Script;
use crate::session::Plan;
use crate::times::Times;
use coordinator_core::{Error, ErrorKind, LossReason, Moment, Scope, Session};
use futures_util::future::try_join_all;
use redis::{PushInfo, PushKind, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

/// The task that owns a session: it renews it, and replaces its connection.
///
/// States: attached (there is a link, heartbeats are answered) → detached (connecting again and again, until the
/// session's deadline) → attached …; ended, when the session is lost or nobody has a handle of it any more.
pub(crate) struct Keeper {
    plan: Arc<Plan>,
    id: String,
    key: String,
    session: Session,
    books: Arc<Books>,
    links: watch::Sender<Option<Link>>,
    /// The socket of the present link; dropped, what is in flight on it fails at once.
    socket: Option<AbortOnDropHandle<()>>,
    attached: u64,
    verified: Instant,
    broken: mpsc::WeakUnboundedSender<u64>,
    breaks: mpsc::UnboundedReceiver<u64>,
}

/// How many scopes are renewed in one step of the server, which serves nobody else meanwhile.
const CHUNK: usize = 200;

impl Keeper {
    /// Begins the session.
    pub(crate) async fn open(
        plan: &Arc<Plan>,
        id: &str,
        books: &Arc<Books>,
        broken: mpsc::WeakUnboundedSender<u64>,
        breaks: mpsc::UnboundedReceiver<u64>,
    ) -> Result<Self, Error> {
        let mut keeper = Self {
            plan: Arc::clone(plan),
            id: id.to_owned(),
            key: plan.keys.session(id),
            session: Session::until(Moment::now().after(plan.times.guaranteed())),
            books: Arc::clone(books),
            links: watch::Sender::default(),
            socket: None,
            attached: 0,
            verified: Instant::now(),
            broken,
            breaks,
        };
        keeper.attach().await?;
        Ok(keeper)
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn link(&self) -> watch::Receiver<Option<Link>> {
        self.links.subscribe()
    }

    pub(crate) async fn run(mut self) {
        let expiry = self.session.expiry(&self.plan.connector.upkeep);
        tokio::select! {
            biased;
            _ = expiry => {}
            () = self.serve() => self.session.lose(LossReason::ShutDown),
        }
        self.end().await;
    }

    /// Returns when nobody has a handle of the session any more.
    async fn serve(&mut self) {
        while self.keep().await {
            self.links.send_replace(None);
            self.socket = None;
            let mut failures = 0;
            while let Err(error) = self.attach().await {
                if self.breaks.is_closed() {
                    return;
                }
                if failures == 0 {
                    tracing::warn!(%error, "the connection that this instance's session is renewed over broke");
                }
                tokio::time::sleep(Duration::from_millis(25 << failures.min(5))).await;
                failures += 1;
            }
        }
    }

    /// Attached; true when the link broke.
    async fn keep(&mut self) -> bool {
        let mut beat = tokio::time::interval(self.plan.times.heartbeat());
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                broke = self.breaks.recv() => match broke {
                    None => return false,
                    Some(number) if number == self.attached => return true,
                    Some(_) => {} // long since replaced
                },
                _ = beat.tick() => {
                    let due = self.verified.elapsed() > Times::REAP / 3;
                    let beat = tokio::time::timeout(self.plan.times.patience(), self.renew(due));
                    match beat.await {
                        Ok(Ok(())) => {}
                        Ok(Err(failure)) => {
                            tracing::debug!(error = %failure.into_error("renew"), "a renewal failed");
                            return true;
                        }
                        Err(_) => return true,
                    }
                }
            }
        }
    }

    /// Connects, makes that connection the one that counts, and asks what of the session's is left.
    async fn attach(&mut self) -> Result<(), Error> {
        self.attached += 1;
        let Connected { connection, driver, scripts, .. } = self.plan.connector.connect(self.hears()).await?;
        let times = &self.plan.times;
        let value = format!("{} {} {}", self.attached, times.floor().as_millis(), self.plan.instance);
        let link = Link::new(connection, scripts, value, self.attached);
        let late = || Error::new(ErrorKind::Unavailable, "connect", "the server stopped answering");
        self.links.send_replace(None);
        let taken = tokio::time::timeout(times.connect, self.take_over(&link)).await;
        match taken.map_err(|_| late())? {
            Ok(()) => {}
            Err(Failure::Ended) => {
                self.session.lose(LossReason::NotHeld);
                return Err(Error::lost("connect", LossReason::NotHeld));
            }
            Err(failure) => return Err(failure.into_error("connect")),
        }
        self.socket = Some(driver);
        self.links.send_replace(Some(link));
        self.plan.wakes.wake_all();
        Ok(())
    }

    async fn take_over(&mut self, link: &Link) -> Result<(), Failure> {
        let (sent, millis) = (Moment::now(), self.plan.times.time_to_live.as_millis().to_string());
        let number = self.attached.to_string();
        link.run("connect", Script::Attach, &[&self.key], &[&millis, &number]).await?;
        link.subscribe(&[self.plan.keys.wakes(&self.id), self.plan.keys.revocations()]).await?;
        self.renew_over(link, true).await?;
        self.session.renew(sent.after(self.plan.times.guaranteed()));
        Ok(())
    }

    async fn renew(&mut self, scopes_too: bool) -> Result<(), Failure> {
        let link = self.links.borrow().clone();
        match link {
            Some(link) => self.renew_over(&link, scopes_too).await,
            None => Ok(()), // not attached: there is nothing to renew over
        }
    }

    async fn renew_over(&mut self, link: &Link, scopes_too: bool) -> Result<(), Failure> {
        let (sent, begin) = (Moment::now(), Instant::now());
        let held = if scopes_too { self.books.held() } else { Vec::new() };
        for chunk in held.chunks(CHUNK) {
            self.verify(link, chunk).await?;
        }
        self.verify(link, &[]).await?;
        if scopes_too {
            self.verified = begin;
        }
        self.session.renew(sent.after(self.plan.times.guaranteed()));
        self.leave(link, self.books.doubtful()).await
    }

    /// Renews the session and these scopes' keys; what the server does not hold any more is a loss of all.
    async fn verify(&self, link: &Link, scopes: &[(Scope, Entry)]) -> Result<(), Failure> {
        let millis = self.plan.times.time_to_live.as_millis().to_string();
        let (mut keys, mut arguments) = (vec![self.key.clone()], vec![millis]);
        for (scope, entry) in scopes {
            keys.push(self.plan.keys.scope(scope));
            arguments.push(entry.held(&self.id));
        }
        let answer = link.run("renew", Script::Verify, &borrowed(&keys), &borrowed(&arguments)).await?;
        let missing: Vec<usize> = read(answer)?;
        // One that was released meanwhile is no loss.
        let is_lost = |at: &usize| scopes.get(*at).is_some_and(|(scope, entry)| self.books.holds(scope, *entry));
        if missing.iter().any(is_lost) {
            self.session.lose(LossReason::NotHeld);
        }
        Ok(())
    }

    async fn leave(&self, link: &Link, scopes: Vec<(Scope, Entry)>) -> Result<(), Failure> {
        let leave = |(scope, entry): (Scope, Entry)| async move {
            let (key, by) = (self.plan.keys.scope(&scope), entry.by(&self.id));
            link.run("release", Script::Leave, &[&self.key, &key], &[&by, entry.letter()]).await?;
            self.books.settle(scope, entry);
            Ok(())
        };
        try_join_all(scopes.into_iter().map(leave)).await.map(drop)
    }

    /// Frees what the session has, so that nobody waits for its time to live; if that fails, that frees it.
    async fn end(&mut self) {
        let link = self.links.send_replace(None);
        if let Some(link) = link {
            let free = async {
                let all = [self.books.held(), self.books.doubtful()].concat();
                let _ = self.leave(&link, all).await; // then their line skips a session that is gone
                let _ = link.command::<i64>("release", redis::cmd("DEL").arg(&self.key)).await; // or it expires
            };
            let _ = tokio::time::timeout(self.plan.times.patience(), free).await;
        }
    }

    /// What the connection to come pushes.
    fn hears(&self) -> impl Fn(PushInfo) -> Result<(), Error> + Clone + Send + Sync + 'static + use<> {
        let (wakes, broken, number) = (Arc::clone(&self.plan.wakes), self.broken.clone(), self.attached);
        move |push| {
            match push.kind {
                PushKind::Disconnection => {
                    if let Some(broken) = broken.upgrade() {
                        let _ = broken.send(number); // a keeper that is gone has nothing to replace
                    }
                }
                _ => wakes.hear(&push),
            }
            Ok(())
        }
    }
}

impl Drop for Keeper {
    /// Also where the runtime is shut down: nobody renews it any more.
    fn drop(&mut self) {
        self.session.lose(LossReason::Disconnected);
    }
}

fn borrowed(strings: &[String]) -> Vec<&str> {
    strings.iter().map(String::as_str).collect()
}

fn read(answer: Value) -> Result<Vec<usize>, Failure> {
    redis::from_redis_value(answer).map_err(|error| Failure::Refused(classify("renew", error.into())))
}
