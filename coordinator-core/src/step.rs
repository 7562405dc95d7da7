use crate::{Error, ErrorKind, Lease, Session, reentry, upkeep};
use std::{future::Future, panic, time::Duration};
use tracing::Instrument;

/// Runs `step` on a task that owns `leases`, all of them verified before it begins.
pub(crate) async fn run<F>(leases: &[&Lease], min_remaining: Duration, step: F) -> Result<F::Output, Error>
where
    F: Future<Output: Send> + Send + 'static,
{
    verify(leases, min_remaining).await?;
    let owned: Vec<_> = leases.iter().map(|lease| lease.own()).collect();
    // The other answers took time, the task may be scheduled late, the process be frozen before: look where it begins.
    let begins = move || {
        owned.iter().try_for_each(|(hold, _)| ensure_remaining("irreversible", hold.session(), min_remaining))?;
        Ok::<_, Error>(owned)
    };
    let task = async move {
        let owned = begins()?;
        let output = step.await;
        // Hold before token: who waits for the tokens finds the scope its own to free.
        for (hold, token) in owned {
            drop(hold);
            drop(token);
        }
        Ok(output)
    };
    match upkeep::steps().spawn(reentry::inherit(task).in_current_span()).await {
        Ok(result) => result,
        Err(failed) => match failed.try_into_panic() {
            Ok(payload) => panic::resume_unwind(payload),
            Err(failed) => {
                Err(Error::with_source(ErrorKind::Unavailable, "irreversible", "the step was ended", failed))
            }
        },
    }
}

pub(crate) async fn verify(leases: &[&Lease], min_remaining: Duration) -> Result<(), Error> {
    for lease in leases {
        lease.verify(min_remaining).await?;
    }
    let enough = |lease: &&Lease| ensure_remaining("verify", lease.own().0.session(), min_remaining);
    leases.iter().try_for_each(enough)
}

/// # Errors
/// `Lost`, or `Unavailable` when less is guaranteed from now.
pub(crate) fn ensure_remaining(what: &'static str, session: &Session, min_remaining: Duration) -> Result<(), Error> {
    session.ensure_live(what)?;
    let remaining = session.remaining();
    if remaining >= min_remaining {
        return Ok(());
    }
    let message = format!(
        "{min_remaining:?} were asked for and only {remaining:?} are guaranteed: ask for less, or configure a longer \
         time of silence"
    );
    Err(Error::new(ErrorKind::Unavailable, what, message))
}
