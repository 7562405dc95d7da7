use crate::{Error, ErrorKind};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::fmt;

/// The unit of erasure: a tenant, a subject, a case.
///
/// Only the SHA-256 digest of the name is kept, so the name can't leave the process through a backend, a log
/// or a metric. A digest of a name that can be guessed is a pseudonym, not a secret: see [`DigestKey`].
///
/// ```
/// use coordinator_core::Scope;
///
/// let scope = Scope::new("tenant-7/subject-42")?;
/// assert!(!format!("{scope:?} {scope}").contains("subject-42"));
/// assert!(Scope::new("").is_err());
/// # Ok::<_, coordinator_core::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope([u8; 32]);

impl Scope {
    /// The longest name, in bytes.
    pub const LONGEST: usize = 512;

    /// Names a scope by 1 to 512 bytes of UTF-8 without control characters.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`], saying which rule the name breaks; the name itself is not repeated.
    pub fn new(name: impl AsRef<str>) -> Result<Self, Error> {
        let name = name.as_ref();
        let invalid = |why: String| Err(Error::new(ErrorKind::Invalid, "scope", why));
        if name.is_empty() {
            return invalid("a scope's name has at least one byte".into());
        }
        if name.len() > Self::LONGEST {
            return invalid(format!("a scope's name has at most {} bytes, this one has {}", Self::LONGEST, name.len()));
        }
        if let Some(at) = name.find(char::is_control) {
            return invalid(format!("a scope's name has no control characters, this one has one at byte {at}"));
        }
        Ok(Self(Sha256::digest(name.as_bytes()).into()))
    }

    /// The scope that has this digest.
    pub fn from_digest(digest: [u8; 32]) -> Self {
        Self(digest)
    }

    /// The SHA-256 digest of the name (or, after [`Scope::keyed`], its HMAC).
    pub fn digest(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first eight bytes of the digest, big-endian.
    pub fn key(&self) -> u64 {
        self.0.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
    }

    /// The same scope under a secret: HMAC-SHA-256 of the digest.
    pub fn keyed(&self, key: &DigestKey) -> Self {
        Self(key.mac(&self.0))
    }
}

impl std::hash::Hash for Scope {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        state.write_u64(self.key());
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.key() >> 16)
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({self})")
    }
}

/// A secret that turns a scope's digest into one that can't be guessed from the name.
///
/// Every instance of a deployment needs the same one: instances with different keys don't exclude each other.
#[derive(Clone)]
pub struct DigestKey(Hmac<Sha256>);

impl DigestKey {
    /// Any length; 32 random bytes are right.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for fewer than 16 bytes.
    pub fn new(secret: &[u8]) -> Result<Self, Error> {
        match Hmac::new_from_slice(secret) {
            Ok(hmac) if secret.len() >= 16 => Ok(Self(hmac)),
            _ => Err(Error::new(ErrorKind::Invalid, "digest key", "a digest key has at least 16 bytes")),
        }
    }

    /// HMAC-SHA-256 of `data` under this key.
    pub fn mac(&self, data: &[u8]) -> [u8; 32] {
        let mut mac = self.0.clone();
        mac.update(data);
        mac.finalize().into_bytes().into()
    }
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DigestKey")
    }
}

/// How a scope is held.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// Nobody else holds the scope: erasures.
    Exclusive,
    /// Others may hold it shared too: writes and hold placements.
    Shared,
}

impl Mode {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Exclusive => "exclusive",
            Self::Shared => "shared",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
