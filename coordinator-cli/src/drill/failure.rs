use std::{error::Error, io};

/// Why an operation, or the drill itself, could not be carried out; a refusal is none of these.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The lock could not be had, or was lost.
    #[error(transparent)]
    Coordinator(#[from] coordinator_core::Error),
    /// The store did not do what it was asked.
    #[error("the store could not {operation}")]
    Store {
        /// What it was asked.
        operation: &'static str,
        /// Why not.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The key service did not answer.
    #[error("the key service could not be asked")]
    KeyService(#[source] io::Error),
    /// Something that can only be a fault of the drill, or of what it runs on.
    #[error("{0}")]
    Unexpected(String),
    /// The user ended the drill.
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    /// The store did not do what it was asked.
    pub(crate) fn store(operation: &'static str, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Store { operation, source: source.into() }
    }

    /// The message with its causes, each said once.
    pub(crate) fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            let more = error.to_string();
            // Some drivers' errors repeat their source.
            if !text.contains(&more) {
                text = format!("{text}: {more}");
            }
            cause = error.source();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_once() {
        let failure = Failure::store("be reached", io::Error::other("no such host"));
        assert_eq!(failure.with_causes(), "the store could not be reached: no such host");
        assert_eq!(Failure::Interrupted.with_causes(), "interrupted");
    }
}
