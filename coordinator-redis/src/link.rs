use crate::error::{classify, is_elsewhere, is_told};
use crate::scripts::{ENDED, REPLACED, Script, Scripts};
use coordinator_core::{Error, ErrorKind};
use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, RedisResult, ServerErrorKind, Value};
use std::sync::Arc;

/// The connection of a session whose requests count: a later one replaces it, and what arrives over this one after that
/// is refused by the scripts. What is queued goes out in one write, and the answers come in order.
#[derive(Clone)]
pub(crate) struct Link {
    connection: MultiplexedConnection,
    scripts: Arc<Scripts>,
    /// What the session's key says as long as this connection is the one that counts.
    value: Arc<str>,
    /// 1 for the first one of a session.
    pub(crate) number: u64,
}

/// Why a request has no answer.
pub(crate) enum Failure {
    /// The session has ended at the server.
    Ended,
    /// It was not done here; another connection may lead to where it can be.
    Elsewhere(Error),
    /// Whether it was done is unknown; asked again over another connection, the server says.
    Unanswered(Error),
    /// It was not done, and a repetition won't help.
    Refused(Error),
}

impl Link {
    pub(crate) fn new(connection: MultiplexedConnection, scripts: Scripts, value: String, number: u64) -> Self {
        Self { connection, scripts: Arc::new(scripts), value: value.into(), number }
    }

    /// Runs a script that takes the session's value first.
    pub(crate) async fn run(
        &self,
        operation: &'static str,
        script: Script,
        keys: &[&str],
        arguments: &[&str],
    ) -> Result<Value, Failure> {
        match self.evaluate(script, keys, arguments).await {
            Ok(Value::Int(ENDED)) => Err(Failure::Ended),
            Ok(Value::Int(REPLACED)) => {
                let message = "another connection of this session has replaced this one";
                Err(Failure::Elsewhere(Error::new(ErrorKind::Unavailable, operation, message)))
            }
            Ok(value) => Ok(value),
            Err(error) => Err(failure(operation, error)),
        }
    }

    async fn evaluate(&self, script: Script, keys: &[&str], arguments: &[&str]) -> RedisResult<Value> {
        let mut connection = self.connection.clone();
        let mut request = Cmd::new();
        request.arg("EVALSHA").arg(self.scripts.hash(script)).arg(keys.len());
        for key in keys {
            request.arg(*key);
        }
        request.arg(&*self.value);
        for argument in arguments {
            request.arg(*argument);
        }
        match request.query_async(&mut connection).await {
            // Somebody has flushed the server's scripts. Nothing was done yet.
            Err(error) if error.kind() == ServerErrorKind::NoScript.into() => {
                Scripts::load(&mut connection).await?;
                request.query_async(&mut connection).await
            }
            outcome => outcome,
        }
    }

    pub(crate) async fn command<T: redis::FromRedisValue>(
        &self,
        operation: &'static str,
        command: &Cmd,
    ) -> Result<T, Failure> {
        let answer = command.query_async(&mut self.connection.clone()).await;
        answer.map_err(|error| failure(operation, error))
    }

    pub(crate) async fn subscribe(&self, channels: &[String]) -> Result<(), Failure> {
        let subscribed = self.connection.clone().subscribe(channels).await;
        subscribed.map_err(|error| failure("connect", error))
    }
}

fn failure(operation: &'static str, error: RedisError) -> Failure {
    if is_elsewhere(&error) {
        Failure::Elsewhere(classify(operation, error))
    } else if is_told(&error) {
        Failure::Refused(classify(operation, error))
    } else {
        Failure::Unanswered(classify(operation, error))
    }
}

impl Failure {
    pub(crate) fn into_error(self, operation: &'static str) -> Error {
        match self {
            Self::Ended => Error::new(ErrorKind::Unavailable, operation, "the session has ended at the server"),
            Self::Elsewhere(error) | Self::Unanswered(error) | Self::Refused(error) => error,
        }
    }
}
