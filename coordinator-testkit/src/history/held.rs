use super::{Client, Step};
use crate::Moment;
use coordinator_core::{Error, FencingToken, Lease, LossReason};
use std::sync::{Mutex, PoisonError};

/// A lease whose life is recorded; dropping it frees the scope.
#[derive(Debug)]
#[must_use = "a lease that is dropped frees its scope"]
pub struct Held {
    /// Until it is released.
    lease: Option<Lease>,
    client: Client,
    scope: String,
    believed: Mutex<Belief>,
}

#[derive(Clone, Copy, Debug)]
enum Belief {
    /// It said so at that moment.
    Live(Moment),
    /// The end is recorded.
    Ended,
}

impl Held {
    pub(super) fn new(lease: Lease, client: Client, scope: &str) -> Self {
        let believed = Mutex::new(Belief::Live(Moment::now()));
        Self { lease: Some(lease), client, scope: scope.to_owned(), believed }
    }

    /// The lease, for what is not recorded.
    ///
    /// # Panics
    /// Never: it is there until the release.
    pub fn lease(&self) -> &Lease {
        self.lease.as_ref().expect("there until it is released")
    }

    /// Whether it believes; the first time that it does not, the last time that it did is recorded.
    pub fn is_live(&self) -> bool {
        // Looked at before the question: a thread that is frozen in between has asked before it was.
        let asked = Moment::now();
        let live = self.lease().ensure_live().is_ok();
        let mut believed = self.believed.lock().unwrap_or_else(PoisonError::into_inner);
        match (*believed, live) {
            (Belief::Ended, false) => {}
            // A lost lease that is live again is for the checker to see: its end is recorded anew.
            (_, true) => *believed = Belief::Live(asked),
            (Belief::Live(at), false) => {
                *believed = Belief::Ended;
                self.client.did(at, &self.scope, Step::BeliefEnded);
            }
        }
        live
    }

    /// Resolves when the loss is told.
    ///
    /// # Cancel safety
    /// May be dropped at any time; nothing is recorded then.
    pub async fn lost(&self) -> LossReason {
        let reason = self.lease().lost().await;
        self.client.does(&self.scope, Step::Lost(reason.to_string()));
        reason
    }

    /// A token.
    ///
    /// # Errors
    /// As of the lease.
    ///
    /// # Cancel safety
    /// May be dropped at any time; nothing is recorded then.
    pub async fn fence(&self) -> Result<FencingToken, Error> {
        let asked = Moment::now();
        let token = self.lease().fence().await;
        self.client.does(
            &self.scope,
            match &token {
                Ok(token) => Step::Token { token: token.get(), asked },
                Err(error) => Step::Failed(error.to_string()),
            },
        );
        token
    }

    /// Releases it.
    ///
    /// # Errors
    /// As of the lease.
    ///
    /// # Cancel safety
    /// May be dropped at any time: the scope is freed all the same.
    pub async fn release(mut self) -> Result<(), Error> {
        let Some(lease) = self.lease.take() else { return Ok(()) };
        self.client.does(&self.scope, Step::Release);
        let released = lease.release().await;
        if let Err(error) = &released {
            self.client.does(&self.scope, Step::Failed(error.to_string()));
        }
        released
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.lease.is_some() {
            self.client.does(&self.scope, Step::Dropped);
        }
    }
}
