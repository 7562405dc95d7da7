use aes_gcm::{
    Aes256Gcm, Nonce,
    aead::{Aead as _, KeyInit as _, Payload},
};

/// A 256-bit key of AES-GCM.
pub(crate) type Secret = [u8; 32];

/// Length of the nonce that leads every sealed text.
const NONCE: usize = 12;

/// A fresh key.
pub(crate) fn fresh() -> Secret {
    rand::random()
}

/// Seals `text` under a fresh nonce, bound to `context`; `None` if the cipher refuses its length.
pub(crate) fn seal(key: &Secret, context: &str, text: &[u8]) -> Option<Vec<u8>> {
    let nonce: [u8; NONCE] = rand::random();
    let payload = Payload { msg: text, aad: context.as_bytes() };
    let sealed = Aes256Gcm::new(&(*key).into()).encrypt(&Nonce::from(nonce), payload).ok()?;
    Some([&nonce[..], &sealed].concat())
}

/// Opens what [`seal`] made; `None` if key, context or text is another.
pub(crate) fn open(key: &Secret, context: &str, sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE>()?;
    let payload = Payload { msg: sealed, aad: context.as_bytes() };
    Aes256Gcm::new(&(*key).into()).decrypt(&Nonce::from(*nonce), payload).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_key_and_context_open() {
        let key = fresh();
        let sealed = seal(&key, "item 1", b"text").expect("sealed");
        assert_eq!(open(&key, "item 1", &sealed).as_deref(), Some(&b"text"[..]));
        assert_eq!(open(&key, "item 2", &sealed), None);
        assert_eq!(open(&fresh(), "item 1", &sealed), None);
        assert_eq!(open(&key, "item 1", &sealed[..5]), None);
    }
}
