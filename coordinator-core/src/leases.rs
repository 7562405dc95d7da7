use crate::{Error, Lease, LossReason, Scope, lease};
use std::{future::poll_fn, ops::Deref, task::Poll, time::Duration};

/// Several scopes held together, from [`acquire_all`](crate::ErasureCoordinatorExt::acquire_all).
///
/// A slice of leases in the order in which they were taken.
#[must_use = "leases that are dropped free their scopes"]
#[derive(Debug)]
pub struct Leases(pub(crate) Vec<Lease>);

impl Leases {
    /// The lease of one of the scopes.
    pub fn get(&self, scope: &Scope) -> Option<&Lease> {
        self.0.iter().find(|lease| lease.scope() == scope)
    }

    /// As [`Lease::ensure_live`], for all of them.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) when one of them is.
    pub fn ensure_live(&self) -> Result<(), Error> {
        self.0.iter().try_for_each(Lease::ensure_live)
    }

    /// As [`Lease::verify`], for all of them.
    ///
    /// # Errors
    /// The first error of [`Lease::verify`].
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn verify(&self, min_remaining: Duration) -> Result<(), Error> {
        lease::verify(&self.0, min_remaining).await
    }

    /// Resolves when the first of them is lost.
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + 'static + use<> {
        let mut lost: Vec<_> = self.0.iter().map(|lease| Box::pin(lease.lost())).collect();
        poll_fn(move |cx| {
            let first = lost.iter_mut().map(|lost| lost.as_mut().poll(cx)).find(Poll::is_ready);
            first.unwrap_or(Poll::Pending)
        })
    }

    /// As [`Lease::irreversible`], on a task that owns all of them.
    ///
    /// # Errors
    /// As [`Lease::verify`]; the step has not begun then.
    ///
    /// # Panics
    /// If the step panics.
    ///
    /// # Cancel safety
    /// Dropped before the step began: it never runs. Later: it runs to its end, the scopes held.
    pub async fn irreversible<F>(&self, min_remaining: Duration, step: F) -> Result<F::Output, Error>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        lease::irreversible(&self.0, min_remaining, step).await
    }

    /// As [`Lease::release`], last taken first; all are freed, also when one fails.
    ///
    /// # Errors
    /// The first error of [`Lease::release`].
    ///
    /// # Cancel safety
    /// May be dropped at any time: the scopes are freed all the same, unconfirmed.
    pub async fn release(self) -> Result<(), Error> {
        let mut outcome = Ok(());
        for lease in self.0.into_iter().rev() {
            outcome = outcome.and(lease.release().await);
        }
        outcome
    }
}

impl Deref for Leases {
    type Target = [Lease];

    fn deref(&self) -> &[Lease] {
        &self.0
    }
}
