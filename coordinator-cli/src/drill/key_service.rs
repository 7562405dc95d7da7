use super::{cipher::Secret, failure::Failure};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The name of a wrapping key: each erasure of a subject ends one generation of its keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub(crate) struct KeyName {
    /// Whose items it wraps.
    pub(crate) subject: i64,
    /// Which of the subject's keys it is.
    pub(crate) generation: i64,
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.subject, self.generation)
    }
}

/// A request to the key service; wrapping keys never leave it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum KeyRequest {
    /// A fresh data key, and the same wrapped; makes the wrapping key if it never existed.
    DataKey(KeyName),
    /// The data key that was wrapped.
    Unwrap(KeyName, Vec<u8>),
    /// Whether the wrapping key can be used.
    Describe(KeyName),
    /// Destroys the wrapping key, for ever; again is fine.
    Destroy(KeyName),
}

/// An answer of the key service.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum KeyReply {
    /// A data key and the same wrapped.
    DataKey(Secret, Vec<u8>),
    /// The data key that was wrapped.
    Unwrapped(Secret),
    /// The wrapping key can be used, or could be made.
    Usable,
    /// The wrapping key was destroyed.
    Destroyed,
    /// What was to be unwrapped was not wrapped under this key.
    Unreadable,
}

/// The service that holds the wrapping keys; a request that was sent can't be recalled.
#[async_trait]
pub(crate) trait KeyService: Send + Sync + fmt::Debug {
    /// Sends a request and waits for the answer; dropping the wait does not stop the request.
    async fn ask(&self, request: KeyRequest) -> Result<KeyReply, Failure>;

    /// A fresh data key and the same wrapped; `None` if the wrapping key was destroyed.
    async fn data_key(&self, key: KeyName) -> Result<Option<(Secret, Vec<u8>)>, Failure> {
        match self.ask(KeyRequest::DataKey(key)).await? {
            KeyReply::DataKey(secret, wrapped) => Ok(Some((secret, wrapped))),
            KeyReply::Destroyed => Ok(None),
            odd => Err(unexpected(&odd)),
        }
    }

    /// Whether the wrapping key can be used.
    async fn is_usable(&self, key: KeyName) -> Result<bool, Failure> {
        match self.ask(KeyRequest::Describe(key)).await? {
            KeyReply::Usable => Ok(true),
            KeyReply::Destroyed => Ok(false),
            odd => Err(unexpected(&odd)),
        }
    }

    /// Destroys the wrapping key.
    async fn destroy(&self, key: KeyName) -> Result<(), Failure> {
        match self.ask(KeyRequest::Destroy(key)).await? {
            KeyReply::Destroyed => Ok(()),
            odd => Err(unexpected(&odd)),
        }
    }
}

fn unexpected(reply: &KeyReply) -> Failure {
    let kind = match reply {
        KeyReply::DataKey(..) => "a data key",
        KeyReply::Unwrapped(_) => "an unwrapped key",
        KeyReply::Usable => "that the key is usable",
        KeyReply::Destroyed => "that the key is destroyed",
        KeyReply::Unreadable => "that the wrapped key is unreadable",
    };
    Failure::Unexpected(format!("the key service answered {kind}, which was not asked"))
}
