//! How connections to relays are set up: what an address is, who vouches for `https://`, and why no
//! connection came about.
//!
//! Every HTTP client of this floor is built here. None follows a redirect or asks a proxy: either
//! would let somebody else choose where requests go. And none is built in the HTTP library's own
//! way: once that can do TLS, it wants to know by which cryptography, even for plain HTTP, and ends
//! the program when nobody says.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::{Client, ClientBuilder, Url, redirect};

use crate::types::limit::MAX_RELAY_URL_BYTES;

/// Time limit of a connection attempt.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a connection is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(20);
/// Largest file with certificates: the system's own lists have a quarter of a MiB.
#[cfg(feature = "tls")]
const MAX_AUTHORITIES_BYTES: u64 = 4 << 20;

/// Whether an address may go on behind the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paths {
    /// No.
    Refused,
    /// Yes; slashes are tidied.
    Kept,
}

/// Checks and normalises the address of a relay: lower case, no slash at its end.
///
/// # Errors
///
/// The rule that it breaks.
pub(super) fn address(
    text: &str,
    paths: Paths,
    not_a_url: &'static str,
) -> Result<String, &'static str> {
    let text = text.trim();
    if text.is_empty() {
        return Err("is empty");
    }
    if text.len() > MAX_RELAY_URL_BYTES {
        return Err("is too long");
    }
    let url = Url::parse(text).map_err(|_| not_a_url)?;
    match url.scheme() {
        "http" => {}
        "https" if cfg!(feature = "tls") => {}
        "https" => {
            return Err(
                "is an https:// URL, and this program was built without TLS; build it with \
                 --features tls",
            );
        }
        _ => return Err("is not an http:// URL"),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("carries a user name or password");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("carries a query or a fragment");
    }
    let path: String = url
        .path()
        .split('/')
        .filter(|part| !part.is_empty())
        .map(|part| format!("/{part}"))
        .collect();
    if paths == Paths::Refused && !path.is_empty() {
        return Err("carries a path");
    }
    let Some(host) = url.host_str() else {
        return Err("has no host");
    };
    let port = url.port().map_or_else(String::new, |p| format!(":{p}"));
    Ok(format!("{}://{host}{port}{path}", url.scheme()))
}

/// Whether what goes to this address is encrypted on the way.
pub(super) fn is_secure(address: &str) -> bool {
    address.starts_with("https://")
}

/// Who vouches for relays behind `https://`: the authorities that the system trusts, unless a file
/// names others.
#[derive(Clone, Debug, Default)]
pub struct Authorities {
    #[cfg(feature = "tls")]
    named: Option<std::sync::Arc<rustls::RootCertStore>>,
}

/// Why a file names no authorities.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthoritiesError {
    /// It cannot be read.
    #[error("certificates of {}: {source}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// It is longer than any list of authorities.
    #[error("certificates of {}: the file has more than {max} bytes", path.display())]
    TooLong {
        /// Its path.
        path: PathBuf,
        /// The bound.
        max: u64,
    },
    /// Nothing there reads as one.
    #[error("certificates of {}: certificate {number} cannot be read", path.display())]
    Certificate {
        /// Its path.
        path: PathBuf,
        /// Which one, from 1.
        number: usize,
    },
    /// Nothing there.
    #[error("certificates of {}: the file holds none in PEM form", path.display())]
    Empty {
        /// Its path.
        path: PathBuf,
    },
    /// This program does not speak TLS.
    #[error("certificates of {}: this program was built without TLS; build it with --features tls", path.display())]
    NoTls {
        /// The path of the file.
        path: PathBuf,
    },
}

impl Authorities {
    /// The authorities of a PEM file, and no others.
    ///
    /// # Errors
    ///
    /// [`AuthoritiesError`].
    #[cfg(feature = "tls")]
    pub fn read(path: &Path) -> Result<Authorities, AuthoritiesError> {
        use rustls::pki_types::CertificateDer;
        use rustls::pki_types::pem::PemObject as _;
        use std::io::Read as _;

        let path = path.to_owned();
        let mut text = Vec::new();
        let read = std::fs::File::open(&path)
            .and_then(|file| file.take(MAX_AUTHORITIES_BYTES + 1).read_to_end(&mut text));
        match read {
            Err(source) => return Err(AuthoritiesError::File { path, source }),
            Ok(n) if n as u64 > MAX_AUTHORITIES_BYTES => {
                let max = MAX_AUTHORITIES_BYTES;
                return Err(AuthoritiesError::TooLong { path, max });
            }
            Ok(_) => {}
        }
        let mut roots = rustls::RootCertStore::empty();
        for (at, certificate) in CertificateDer::pem_slice_iter(&text).enumerate() {
            let added = certificate.is_ok_and(|certificate| roots.add(certificate).is_ok());
            if !added {
                let number = at.saturating_add(1);
                return Err(AuthoritiesError::Certificate { path, number });
            }
        }
        if roots.is_empty() {
            return Err(AuthoritiesError::Empty { path });
        }
        Ok(Authorities {
            named: Some(std::sync::Arc::new(roots)),
        })
    }

    /// Refuses: there is nothing to use them for.
    ///
    /// # Errors
    ///
    /// Always.
    #[cfg(not(feature = "tls"))]
    pub fn read(path: &Path) -> Result<Authorities, AuthoritiesError> {
        Err(AuthoritiesError::NoTls {
            path: path.to_owned(),
        })
    }
}

/// No client could be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetUpError {
    /// The HTTP library does not start.
    #[error("cannot set up the HTTP client: {reason}")]
    Library {
        /// What it says.
        reason: String,
    },
    /// The cryptography for TLS does not run here.
    #[error(
        "https:// does not work on this processor: the TLS of this program needs AES, carry-less \
         multiplication and, on x86-64, AVX2, BMI1 and ADX or, on aarch64, SHA-2 instructions; use http:// to a proxy on this \
         machine that speaks TLS"
    )]
    Processor,
    /// The system names no authorities, or not in a way that can be read.
    #[error(
        "https:// does not work here: {reason}; --relay-ca FILE names the authorities to trust"
    )]
    System {
        /// In words.
        reason: String,
    },
}

/// A client of relays, of which `secure` ones are asked over TLS.
///
/// # Errors
///
/// [`SetUpError`].
pub(super) fn client(
    builder: ClientBuilder,
    secure: bool,
    authorities: &Authorities,
) -> Result<Client, SetUpError> {
    let builder = builder
        .connect_timeout(CONNECT)
        .redirect(redirect::Policy::none())
        .no_proxy()
        .pool_idle_timeout(IDLE);
    with_tls(builder, secure, authorities)?
        .build()
        .map_err(|e| SetUpError::Library {
            reason: e.to_string(),
        })
}

#[cfg(feature = "tls")]
fn with_tls(
    builder: ClientBuilder,
    secure: bool,
    authorities: &Authorities,
) -> Result<ClientBuilder, SetUpError> {
    let supported = graviola::util::is_cpu_supported();
    Ok(builder.tls_backend_preconfigured(tls(secure, supported, authorities)?))
}

#[cfg(not(feature = "tls"))]
#[allow(clippy::unnecessary_wraps)]
fn with_tls(builder: ClientBuilder, _: bool, _: &Authorities) -> Result<ClientBuilder, SetUpError> {
    Ok(builder)
}

/// What the HTTP library is told about TLS. For a client that never uses it, that nobody is trusted;
/// nothing is computed for that, so that it works on every processor.
#[cfg(feature = "tls")]
fn tls(
    secure: bool,
    supported: bool,
    authorities: &Authorities,
) -> Result<rustls::ClientConfig, SetUpError> {
    use std::sync::Arc;

    if secure && !supported {
        return Err(SetUpError::Processor);
    }
    let system = |e: rustls::Error| SetUpError::System {
        reason: match e {
            rustls::Error::General(reason) => reason,
            other => other.to_string(),
        },
    };
    let provider = Arc::new(rustls_graviola::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(system)?;
    let config = match (&authorities.named, secure) {
        (Some(roots), true) => config.with_root_certificates(Arc::clone(roots)),
        (None, true) => {
            let verifier = rustls_platform_verifier::Verifier::new(provider).map_err(system)?;
            config
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(verifier))
        }
        (_, false) => config.with_root_certificates(rustls::RootCertStore::empty()),
    };
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Why a request came to nothing.
pub(super) enum Cause {
    /// There is somebody, with whom there is no TLS. In words of this program alone.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "of TLS alone"))]
    Tls(&'static str),
    /// The system's reason, or the HTTP library's.
    Other(String),
}

/// The innermost cause of an error; the URL is known and left out.
pub(super) fn cause(e: &reqwest::Error) -> Cause {
    let mut reason = String::new();
    let mut next: Option<&(dyn Error + 'static)> = e.source();
    while let Some(error) = next {
        #[cfg(feature = "tls")]
        if let Some(words) = tls_words(error) {
            return Cause::Tls(words);
        }
        reason = error.to_string();
        next = error.source();
    }
    Cause::Other(reason)
}

/// What a TLS error means to whoever reads it, without a word of the peer's.
#[cfg(feature = "tls")]
fn tls_words(error: &(dyn Error + 'static)) -> Option<&'static str> {
    use rustls::CertificateError as Bad;
    use rustls::Error as Tls;

    // An error within an I/O error is none of its causes.
    let mut error = error;
    while let Some(inner) = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref)
    {
        error = inner;
    }
    Some(match error.downcast_ref::<Tls>()? {
        Tls::InvalidCertificate(Bad::UnknownIssuer) => {
            "its certificate is from no authority that is trusted here; --relay-ca FILE names the \
             authorities to trust"
        }
        Tls::InvalidCertificate(Bad::NotValidForName | Bad::NotValidForNameContext { .. }) => {
            "its certificate is for another name"
        }
        Tls::InvalidCertificate(Bad::Expired | Bad::ExpiredContext { .. }) => {
            "its certificate has expired"
        }
        Tls::InvalidCertificate(Bad::NotValidYet | Bad::NotValidYetContext { .. }) => {
            "its certificate is not valid yet"
        }
        Tls::InvalidCertificate(Bad::Revoked) => "its certificate is revoked",
        Tls::InvalidCertificate(_) => "its certificate is not accepted",
        Tls::InvalidMessage(_) => "what answers there does not speak TLS; http:// perhaps does",
        Tls::PeerIncompatible(_) | Tls::AlertReceived(_) => {
            "it wants another kind of TLS than this program speaks"
        }
        _ => "the TLS connection broke",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_needs_no_tls() {
        client(Client::builder(), false, &Authorities::default()).unwrap();
        #[cfg(feature = "tls")]
        tls(false, false, &Authorities::default()).unwrap();
    }

    #[cfg(feature = "tls")]
    #[test]
    fn a_processor_without_the_instructions_is_an_error_in_words() {
        let refused = tls(true, false, &Authorities::default()).unwrap_err();
        assert!(matches!(refused, SetUpError::Processor), "{refused}");
        assert!(refused.to_string().contains("AVX2"), "{refused}");
    }

    #[cfg(feature = "tls")]
    #[test]
    fn a_file_that_names_no_authority_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.pem");
        let said = |text: &[u8]| {
            std::fs::write(&path, text).unwrap();
            Authorities::read(&path).unwrap_err()
        };
        assert!(matches!(said(b""), AuthoritiesError::Empty { .. }));
        let garbage = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let number = 1;
        assert!(
            matches!(said(garbage), AuthoritiesError::Certificate { number: n, .. } if n == number)
        );
        let long = vec![b'\n'; usize::try_from(MAX_AUTHORITIES_BYTES).unwrap() + 1];
        assert!(matches!(said(&long), AuthoritiesError::TooLong { .. }));
        std::fs::remove_file(&path).unwrap();
        let gone = Authorities::read(&path).unwrap_err();
        assert!(matches!(gone, AuthoritiesError::File { .. }), "{gone}");
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn without_tls_it_says_so_and_how_to_get_it() {
        let said = address("https://a", Paths::Kept, "").unwrap_err();
        assert!(said.contains("--features tls"), "{said}");
        let said = Authorities::read(Path::new("ca.pem")).unwrap_err();
        assert!(said.to_string().contains("--features tls"), "{said}");
    }
}
