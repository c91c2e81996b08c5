//! The authorities that this machine trusts, and their bundle for the sandbox.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};

/// The authorities that this machine trusts.
#[derive(Debug, Clone, Default)]
pub struct TrustRoots(pub Vec<CertificateDer<'static>>);

/// Loads the authorities that this machine trusts, as its settings name them.
pub fn load_trust_roots() -> TrustRoots {
    TrustRoots(rustls_native_certs::load_native_certs().certs)
}

impl TrustRoots {
    /// Returns the bundle for programs in the sandbox, as PEM: these authorities and one more.
    pub(crate) fn to_pem_with(&self, own: Option<&CertificateDer<'_>>) -> String {
        let mut pem = String::new();
        for certificate in self.0.iter().chain(own) {
            pem.push_str("-----BEGIN CERTIFICATE-----\n");
            let text = STANDARD.encode(certificate);
            for line in text.as_bytes().chunks(64) {
                pem.push_str(std::str::from_utf8(line).expect("base64 is ASCII"));
                pem.push('\n');
            }
            pem.push_str("-----END CERTIFICATE-----\n");
        }
        pem
    }

    /// Returns the settings of a TLS client that trusts these authorities.
    pub(crate) fn client_config(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(self.0.iter().cloned());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has the default versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }
}
