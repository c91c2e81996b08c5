//! The authority of a workspace: it signs certificates for the hosts whose TLS ends in the proxy.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use garret_core::{Error, ErrorKind, HostName, Result};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// The authority of one open sandbox. Its key is never written to a file, and ends with the sandbox.
pub(crate) struct CertificateAuthority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    made: Mutex<BTreeMap<HostName, Arc<ServerConfig>>>,
}

impl fmt::Debug for CertificateAuthority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CertificateAuthority")
    }
}

impl CertificateAuthority {
    /// Makes an authority.
    pub(crate) fn generate() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, "Garret workspace");
        let issuer = KeyPair::generate().and_then(|key| CertifiedIssuer::self_signed(params, key));
        Ok(Self {
            issuer: issuer.map_err(|_| certificate_error())?,
            made: Mutex::default(),
        })
    }

    /// Returns the certificate of the authority.
    pub(crate) fn certificate(&self) -> CertificateDer<'static> {
        self.issuer.der().clone()
    }

    /// Returns the settings of a TLS server that stands for `host`.
    pub(crate) fn server_config(&self, host: &HostName) -> Result<Arc<ServerConfig>> {
        let mut made = self.made.lock().expect("no holder panics");
        if let Some(config) = made.get(host) {
            return Ok(config.clone());
        }
        let config = Arc::new(self.make_server_config(host).ok_or_else(certificate_error)?);
        made.insert(host.clone(), config.clone());
        Ok(config)
    }

    fn make_server_config(&self, host: &HostName) -> Option<ServerConfig> {
        let name = match host {
            HostName::Name(name) => name.clone(),
            HostName::Address(address) => address.to_string(),
        };
        let key = KeyPair::generate().ok()?;
        let mut params = CertificateParams::new(vec![name.clone()]).ok()?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.use_authority_key_identifier_extension = true;
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer).ok()?;
        let key = PrivateKeyDer::try_from(key.serialize_der()).ok()?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .ok()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .ok()?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Some(config)
    }
}

fn certificate_error() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "no certificate can be made for a host of `network.secrets`",
    )
    .hint("check that the machine has a source of randomness, and that the host is a plain name")
}
