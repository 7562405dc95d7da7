use coordinator_core::{Error, ErrorKind};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject};
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use std::path::Path;
use std::sync::Arc;

/// How much of the server's certificate is checked, in the words of libpq's `sslmode`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsMode {
    /// `disable`, `prefer`, `require`: whether to encrypt is tokio-postgres' `SslMode`; the server is not checked.
    Unverified,
    /// `verify-ca`: the certificate comes from a trusted authority.
    VerifyCa,
    /// `verify-full`: and it is the host's own.
    VerifyFull,
}

/// A client configuration for this mode; the roots are a PEM file or the platform's.
pub(crate) fn client_config(mode: TlsMode, roots: Option<&Path>) -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let invalid = |why: String| Error::new(ErrorKind::Invalid, "connect", why);
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid(format!("TLS can't be set up: {error}")))?;
    if mode == TlsMode::Unverified {
        let verifier = Arc::new(Lenient { provider, chain: None });
        return Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth());
    }
    let roots = Arc::new(root_store(roots)?);
    if mode == TlsMode::VerifyFull {
        return Ok(builder.with_root_certificates(roots).with_no_client_auth());
    }
    let chain = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
        .build()
        .map_err(|error| invalid(format!("the root certificates can't be used: {error}")))?;
    let verifier = Arc::new(Lenient { provider, chain: Some(chain) });
    Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth())
}

fn root_store(file: Option<&Path>) -> Result<RootCertStore, Error> {
    let mut store = RootCertStore::empty();
    let certificates = match file {
        Some(file) => CertificateDer::pem_file_iter(file).and_then(Iterator::collect).map_err(|error| {
            let message = format!("sslrootcert {} can't be read as PEM certificates", file.display());
            Error::with_source(ErrorKind::Invalid, "connect", message, error)
        })?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    store.add_parsable_certificates(certificates);
    if store.is_empty() {
        let message = "there is no trusted root certificate: name one by sslrootcert, or install the platform's";
        return Err(Error::new(ErrorKind::Invalid, "connect", message));
    }
    Ok(store)
}

/// Checks less than rustls does by itself: nothing, or the chain without the name.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    chain: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is checked last: the chain was found good.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
