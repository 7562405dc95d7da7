//! A session that holds scopes: one task owns it, and combines what arrives while a statement is in flight.

use crate::batch::{Op, Request, Statements, reconcile};
use crate::error::classify;
use crate::keys::Keys;
use crate::session::{Connection, Opened};
use crate::settings::Settings;
use coordinator_core::{Error, ErrorKind, LossReason, Mode, Moment, Session, Upkeep};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_postgres::error::Severity;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement};

/// A handle of the session; when the last one is dropped the session ends.
#[derive(Clone)]
pub(crate) struct Holding(Arc<Shared>);

struct Shared {
    requests: mpsc::UnboundedSender<Request>,
    session: Session,
    client: Arc<Client>,
    verify: Statement,
    fence: Statement,
    guaranteed: Duration,
}

const LARGEST_BATCH: usize = 1024;

const VERIFY: &str = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1
    AND pid = pg_backend_pid() AND (classid::bigint << 32) | objid::bigint = $1
    AND (mode = 'ExclusiveLock') = $2)";

impl Holding {
    pub(crate) async fn start(opened: Opened, settings: &Settings, upkeep: &Upkeep) -> Result<Self, Error> {
        let sent = Moment::now();
        let client = &opened.client;
        let prepared = tokio::try_join!(
            Statements::prepare(client),
            client.prepare_typed(VERIFY, &[Type::INT8, Type::BOOL]),
            client.prepare_typed(crate::fence::FENCE, &[Type::INT8, Type::BOOL]),
        );
        let (statements, verify, fence) = prepared.map_err(|error| classify("connect", error))?;
        let guaranteed = settings.guaranteed();
        let session = Session::until(sent.after(guaranteed));
        drop(upkeep.spawn(session.expiry(upkeep)));
        let (requests, inbox) = mpsc::unbounded_channel();
        let (client, connection) = (Arc::new(opened.client), opened.connection);
        let owner = Owner { client: Arc::clone(&client), statements, session: session.clone(), guaranteed };
        drop(upkeep.spawn(owner.run(connection, inbox, settings.heartbeat())));
        Ok(Self(Arc::new(Shared { requests, session, client, verify, fence, guaranteed })))
    }

    pub(crate) fn session(&self) -> &Session {
        &self.0.session
    }

    /// # Errors
    /// `Unavailable` if it was not done, or the session is lost: then nothing is held on it any more.
    pub(crate) async fn ask(&self, op: Op, keys: Keys) -> Result<bool, Error> {
        let (reply, answer) = oneshot::channel();
        let gone = || Error::new(ErrorKind::Unavailable, "lock", "the session with the server ended");
        self.0.requests.send(Request { op, keys, reply }).map_err(|_| gone())?;
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Whether the server says that the session holds the key, judged after this call.
    pub(crate) async fn verify(&self, keys: Keys, mode: Mode) -> Result<(), Error> {
        let exclusive = mode == Mode::Exclusive;
        let row = self.renewing("verify", self.0.client.query_one(&self.0.verify, &[&keys.scope, &exclusive])).await?;
        if row.get(0) { Ok(()) } else { Err(self.not_held("verify")) }
    }

    pub(crate) async fn fence(&self, keys: Keys, mode: Mode) -> Result<Option<tokio_postgres::Row>, Error> {
        let exclusive = mode == Mode::Exclusive;
        self.renewing("fence", self.0.client.query_opt(&self.0.fence, &[&keys.scope, &exclusive])).await
    }

    pub(crate) fn client(&self) -> &Client {
        &self.0.client
    }

    /// The server's books and ours differ: every lease of the session is in doubt, so all are told.
    pub(crate) fn not_held(&self, operation: &'static str) -> Error {
        self.0.session.lose(LossReason::NotHeld);
        Error::lost(operation, LossReason::NotHeld)
    }

    async fn renewing<T>(
        &self,
        operation: &'static str,
        query: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Error> {
        let sent = Moment::now();
        let answer = tokio::select! {
            biased;
            reason = self.0.session.lost() => return Err(Error::lost(operation, reason)),
            answer = query => answer,
        };
        match answer {
            Ok(answer) => {
                self.0.session.renew(sent.after(self.0.guaranteed));
                Ok(answer)
            }
            Err(error) if ends_session(&error) => {
                self.0.session.lose(LossReason::Disconnected);
                Err(Error::lost(operation, LossReason::Disconnected))
            }
            Err(error) => Err(classify(operation, error)),
        }
    }
}

/// The task that owns the session. States: serving, then ended for ever, with the session lost.
struct Owner {
    client: Arc<Client>,
    statements: Statements,
    session: Session,
    guaranteed: Duration,
}

impl Owner {
    async fn run(self, mut connection: Connection, mut inbox: mpsc::UnboundedReceiver<Request>, heartbeat: Duration) {
        let lost = self.session.lost();
        tokio::pin!(lost);
        let mut beat = tokio::time::interval(heartbeat);
        beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut burst = Vec::new();
        loop {
            let served = async {
                tokio::select! {
                    biased;
                    received = inbox.recv_many(&mut burst, LARGEST_BATCH) => {
                        if received == 0 {
                            self.session.lose(LossReason::ShutDown); // nobody has a handle any more
                            return;
                        }
                    }
                    _ = beat.tick() => {}
                }
                self.serve(&mut burst).await;
            };
            // A statement that is dropped here dies with its session.
            tokio::select! {
                biased;
                _ = &mut lost => return,
                said = connection.ended() => return tell_end(&self.session, said.as_ref()),
                () = served => {}
            }
        }
    }

    async fn serve(&self, burst: &mut Vec<Request>) {
        let sent = Moment::now();
        match self.statements.run(&self.client, burst).await {
            Ok(answers) => {
                self.session.renew(sent.after(self.guaranteed));
                for (request, answer) in burst.drain(..).zip(answers) {
                    let _ = request.reply.send(Ok(answer)); // nobody listens where the driver's runtime ended
                }
            }
            Err(error) => {
                if ends_session(&error) || reconcile(&self.client, burst, error).await.is_err() {
                    self.session.lose(LossReason::Disconnected); // loss told beats a guess
                }
            }
        }
    }
}

fn ends_session(error: &tokio_postgres::Error) -> bool {
    let severity = error.as_db_error().and_then(tokio_postgres::error::DbError::parsed_severity);
    error.is_closed() || matches!(severity, Some(Severity::Fatal | Severity::Panic))
}

fn tell_end(session: &Session, error: Option<&tokio_postgres::Error>) {
    let said = error.and_then(tokio_postgres::Error::as_db_error).map(tokio_postgres::error::DbError::message);
    tracing::warn!(said, "the session that holds this instance's scopes ended");
    session.lose(LossReason::Disconnected);
}
