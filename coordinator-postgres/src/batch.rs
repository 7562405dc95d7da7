//! What a holding session is asked, and the statements that answer a burst of it.

use crate::error::classify;
use crate::keys::Keys;
use coordinator_core::{Error, Mode};
use futures_util::future::try_join_all;
use std::collections::HashSet;
use tokio::sync::oneshot;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Statement};

/// One question about one scope; its answer is one boolean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    /// Lock, unless somebody holds the turnstile: nobody passes a waiter.
    Try(Mode),
    /// Lock, under the turnstile that a waiting session of ours holds.
    Take(Mode),
    Unlock(Mode),
    /// Whether somebody holds the turnstile.
    Contended,
    /// Nothing but an answer.
    Confirm,
}

pub(crate) struct Request {
    pub(crate) op: Op,
    pub(crate) keys: Keys,
    pub(crate) reply: oneshot::Sender<Result<bool, Error>>,
}

/// One statement per kind of lone request, which costs least, and one for bursts.
pub(crate) struct Statements {
    lone: Vec<Statement>,
    burst: Statement,
}

const OWN_LOCKS: &str = "SELECT (classid::bigint << 32) | objid::bigint, mode = 'ExclusiveLock' FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND pid = pg_backend_pid()";

impl Op {
    const ALL: [Self; 8] = [
        Self::Try(Mode::Exclusive),
        Self::Try(Mode::Shared),
        Self::Take(Mode::Exclusive),
        Self::Take(Mode::Shared),
        Self::Unlock(Mode::Exclusive),
        Self::Unlock(Mode::Shared),
        Self::Contended,
        Self::Confirm,
    ];

    fn code(self) -> usize {
        Self::ALL.iter().position(|op| *op == self).unwrap_or_default()
    }

    /// Over the real key and the turnstile's.
    ///
    /// Not `… AND false` where a turnstile is given back: the planner would fold it away and never call the function.
    fn sql(self, key: &str, turnstile: &str) -> String {
        let shared = |mode| if mode == Mode::Shared { "_shared" } else { "" };
        match self {
            Self::Try(mode) => format!(
                "CASE WHEN pg_try_advisory_lock_shared({turnstile}) THEN
                    CASE WHEN pg_try_advisory_lock{}({key}) THEN pg_advisory_unlock_shared({turnstile})
                        ELSE NOT pg_advisory_unlock_shared({turnstile}) END
                    ELSE false END",
                shared(mode)
            ),
            Self::Take(mode) => format!("pg_try_advisory_lock{}({key})", shared(mode)),
            Self::Unlock(mode) => format!("pg_advisory_unlock{}({key})", shared(mode)),
            Self::Contended => format!(
                "CASE WHEN pg_try_advisory_lock_shared({turnstile}) THEN NOT pg_advisory_unlock_shared({turnstile})
                    ELSE true END"
            ),
            Self::Confirm => "true".into(),
        }
    }
}

impl Statements {
    pub(crate) async fn prepare(client: &Client) -> Result<Self, tokio_postgres::Error> {
        let lone = Op::ALL.map(|op| format!("SELECT {}", op.sql("$1", "$2")));
        let whens = Op::ALL.map(|op| format!("WHEN {} THEN {}", op.code(), op.sql("k", "q")));
        let from = "unnest($1::int[], $2::bigint[], $3::bigint[]) AS burst(op, k, q)";
        // One row with all answers, in the order of the arrays, like the rows of `unnest`: a row each costs both sides more
        // than the locks do.
        let burst = format!("SELECT array_agg(CASE op {} END) FROM {from}", whens.join(" "));
        let lone = lone.iter().map(|sql| client.prepare_typed(sql, &[Type::INT8, Type::INT8]));
        let (lone, burst) = tokio::try_join!(try_join_all(lone), client.prepare(&burst))?;
        Ok(Self { lone, burst })
    }

    /// One answer per request; an empty burst is a heartbeat.
    pub(crate) async fn run(&self, client: &Client, burst: &[Request]) -> Result<Vec<bool>, tokio_postgres::Error> {
        match burst {
            [] => client.query_one(&self.lone[Op::Confirm.code()], &[&0_i64, &0_i64]).await.map(|_| Vec::new()),
            [only] => {
                let lone = &self.lone[only.op.code()];
                client.query_one(lone, &[&only.keys.scope, &only.keys.turnstile]).await.map(|row| vec![row.get(0)])
            }
            _ => {
                let codes = burst.iter().map(|request| i32::try_from(request.op.code()).unwrap_or_default());
                let codes: Vec<i32> = codes.collect();
                let keys: Vec<i64> = burst.iter().map(|request| request.keys.scope).collect();
                let turnstiles: Vec<i64> = burst.iter().map(|request| request.keys.turnstile).collect();
                client.query_one(&self.burst, &[&codes, &keys, &turnstiles]).await.map(|row| row.get(0))
            }
        }
    }
}

/// Answers a burst whose statement failed half-way: it keeps what it locked and does not say which.
///
/// (Measured with SQLSTATE 53200; a cancel can cut a burst the same way.) The answers are derived from what the server
/// says that the session holds, and what is not wanted is freed. If this fails too, the session has to end.
pub(crate) async fn reconcile(
    client: &Client,
    burst: &mut Vec<Request>,
    error: tokio_postgres::Error,
) -> Result<(), tokio_postgres::Error> {
    let error = classify("lock", error);
    let rows = client.query(OWN_LOCKS, &[]).await?;
    let held: HashSet<(i64, bool)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    for request in burst.drain(..) {
        let Request { op, keys, reply } = request;
        let holds = |mode| held.contains(&(keys.scope, mode == Mode::Exclusive));
        if held.contains(&(keys.turnstile, false)) {
            client.query("SELECT pg_advisory_unlock_shared($1)", &[&keys.turnstile]).await?;
        }
        let answer = match op {
            Op::Try(mode) | Op::Take(mode) if holds(mode) => Ok(true),
            Op::Unlock(mode) if holds(mode) => {
                let unlock = format!("SELECT {}", op.sql("$1", ""));
                Ok(client.query_one(&unlock, &[&keys.scope]).await?.get(0))
            }
            Op::Unlock(_) => Ok(true), // freed before the statement failed
            Op::Contended | Op::Confirm | Op::Try(_) | Op::Take(_) => Err(error.clone()),
        };
        let _ = reply.send(answer);
    }
    Ok(())
}
