use crate::{Error, ErrorKind, Lease, reentry, upkeep};
use std::{future::Future, panic, time::Duration};
use tracing::Instrument;

/// Runs `step` on a task that owns `leases`, all of them verified before it begins.
pub(crate) async fn run<F>(leases: &[&Lease], min_remaining: Duration, step: F) -> Result<F::Output, Error>
where
    F: Future<Output: Send> + Send + 'static,
{
    for lease in leases {
        lease.verify(min_remaining).await?;
    }
    for lease in leases {
        lease.ensure_remaining("irreversible", min_remaining)?; // the others' answers took time
    }
    let owned: Vec<_> = leases.iter().map(|lease| lease.own()).collect();
    // The task may be scheduled late, or the process frozen before it is: look once more where the step begins.
    let begins = move || {
        owned.iter().try_for_each(|(hold, _)| {
            let session = hold.session();
            session.ensure_live("irreversible")?;
            if session.remaining() >= min_remaining {
                return Ok(());
            }
            Err(Error::new(ErrorKind::Unavailable, "irreversible", "the step could not begin in time; it did not run"))
        })?;
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
