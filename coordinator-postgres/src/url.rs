use crate::tls::TlsMode;
use std::path::PathBuf;

/// The parts of a URL that tokio-postgres does not know, and the rest.
pub(crate) struct SslParameters {
    pub(crate) mode: TlsMode,
    pub(crate) roots: Option<PathBuf>,
    pub(crate) rest: String,
}

impl SslParameters {
    pub(crate) fn take(url: &str) -> Self {
        let mut ssl = Self { mode: TlsMode::Unverified, roots: None, rest: String::new() };
        let is_url = url.starts_with("postgres://") || url.starts_with("postgresql://");
        match url.split_once('?') {
            Some((before, query)) if is_url => {
                let kept: Vec<&str> = query.split('&').filter(|parameter| !ssl.takes(parameter)).collect();
                ssl.rest = if kept.is_empty() { before.into() } else { format!("{before}?{}", kept.join("&")) };
            }
            _ if is_url => ssl.rest = url.into(),
            _ => {
                let kept: Vec<&str> = url.split(' ').filter(|parameter| !ssl.takes(parameter)).collect();
                ssl.rest = kept.join(" ");
            }
        }
        ssl
    }

    fn takes(&mut self, parameter: &str) -> bool {
        match parameter.split_once('=') {
            Some(("sslmode", "verify-ca")) => self.mode = TlsMode::VerifyCa,
            Some(("sslmode", "verify-full")) => self.mode = TlsMode::VerifyFull,
            Some(("sslrootcert", file)) => self.roots = Some(file.replace("%2F", "/").replace("%20", " ").into()),
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tokio_postgres_does_not_know_is_taken_out() {
        for (url, mode, rest) in [
            (
                "postgres://h/d?sslmode=verify-full&application_name=x",
                TlsMode::VerifyFull,
                "postgres://h/d?application_name=x",
            ),
            ("postgresql://h/d?sslmode=verify-ca", TlsMode::VerifyCa, "postgresql://h/d"),
            ("postgres://h/d?sslmode=require", TlsMode::Unverified, "postgres://h/d?sslmode=require"),
            ("postgres://h/d", TlsMode::Unverified, "postgres://h/d"),
            ("host=h sslmode=verify-full user=u", TlsMode::VerifyFull, "host=h user=u"),
        ] {
            let taken = SslParameters::take(url);
            assert_eq!((taken.mode, &taken.rest[..]), (mode, rest), "{url}");
        }
        let taken = SslParameters::take("postgres://h/d?sslrootcert=%2Fetc%2Fca.pem&sslmode=verify-full");
        assert_eq!(taken.roots, Some("/etc/ca.pem".into()));
    }
}
