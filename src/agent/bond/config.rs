//! What sealed sessions are told at the start of the process.

use std::path::{Path, PathBuf};

use super::relay::{BondUrl, BondUrlError};
use crate::agent::connect::Authorities;
use crate::domain::machine::bond::own::OWN_MAX_FILE_BYTES;
use crate::event::agent::BondMode;

/// The relay when none is named.
pub const DEFAULT_RELAY: &str = "http://127.0.0.1:9441";
/// Largest file in KiB when nobody says.
pub const DEFAULT_FILE_KB: u32 = 256;
/// Largest file in KiB that can be asked for: with the worst text, the relays' limit for one message
/// is reached soon after.
pub const MAX_FILE_KB: u32 = 384;

/// The same of a session with a spoken code, in MiB, when nobody says.
pub const DEFAULT_SPOKEN_FILE_MIB: u32 = 64;
const _: () = assert!((DEFAULT_SPOKEN_FILE_MIB as u64) << 20 == OWN_MAX_FILE_BYTES);
/// Largest file in MiB of a session with a spoken code that can be asked for. Nothing but a hash of each
/// piece is held in memory; what bounds it is patience.
pub const MAX_SPOKEN_FILE_MIB: u32 = 1024;

/// Everything that sealed sessions are told.
#[derive(Clone, Debug)]
pub struct BondConfig {
    /// The relay; where its address is no address, why. That is told to whoever wants a session.
    pub relay: Result<BondUrl, BondUrlError>,
    /// Who vouches for a relay behind `https://`.
    pub authorities: Authorities,
    /// Largest file in KiB, both ways: 1 to [`MAX_FILE_KB`].
    pub max_file_kb: u32,
    /// Largest file in MiB of a session with a spoken code, both ways: 1 to [`MAX_SPOKEN_FILE_MIB`].
    pub max_spoken_file_mib: u32,
    /// Which kind of session is opened when nobody says.
    pub mode: BondMode,
    /// Folders from which files may be sent.
    pub roots: Vec<PathBuf>,
    /// The folder of `audit.log`.
    pub home: PathBuf,
    /// The folder of accepted files.
    pub incoming: PathBuf,
    /// The folder of the identity's state, for what the operator's tool shares with this process.
    pub state: PathBuf,
    /// Whether the operator's tool looks there.
    pub reachable: bool,
}

impl BondConfig {
    /// Largest file of a session with a spoken code, in bytes.
    #[must_use]
    pub fn max_spoken_bytes(&self) -> u64 {
        u64::from(self.max_spoken_file_mib) << 20
    }
}

/// What `COVALENT_MAX_FILE_KB` means: what is no number stands for the default, what is too large or
/// too small for the nearest.
#[must_use]
pub fn file_kb(text: Option<&str>) -> u32 {
    text.and_then(|text| text.trim().parse::<f64>().ok())
        .filter(|kb| kb.is_finite() && *kb > 0.0)
        .map_or(DEFAULT_FILE_KB, |kb| {
            let whole = kb.floor().clamp(1.0, f64::from(MAX_FILE_KB));
            (1..=MAX_FILE_KB)
                .rev()
                .find(|n| f64::from(*n) <= whole)
                .unwrap_or(1)
        })
}

/// The folders from which files may be sent when none is named: where the program was started,
/// unless that is everything.
#[must_use]
pub fn default_roots(folder: Option<&Path>, home: Option<&Path>) -> Vec<PathBuf> {
    folder
        .filter(|folder| folder.parent().is_some())
        .filter(|folder| home.is_none_or(|home| !home.starts_with(folder)))
        .map(Path::to_path_buf)
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cap_of_the_environment_is_clamped_and_nonsense_is_the_default() {
        for (text, kb) in [
            (None, 256),
            (Some(""), 256),
            (Some("garbage"), 256),
            (Some("64"), 64),
            (Some(" 64 "), 64),
            (Some("999999"), 384),
            (Some("0.5"), 1),
            (Some("0"), 256),
            (Some("-5"), 256),
            (Some("NaN"), 256),
        ] {
            assert_eq!(file_kb(text), kb, "{text:?}");
        }
    }

    #[test]
    fn a_home_directory_is_no_project() {
        let roots = |folder, home| default_roots(Some(Path::new(folder)), Some(Path::new(home)));
        assert_eq!(roots("/home/a/p", "/home/a"), [PathBuf::from("/home/a/p")]);
        assert_eq!(roots("/srv", "/home/a"), [PathBuf::from("/srv")]);
        for everything in ["/", "/home", "/home/a"] {
            assert!(roots(everything, "/home/a").is_empty(), "{everything}");
        }
        assert!(default_roots(None, None).is_empty());
    }

    #[test]
    fn addresses_are_normalised_and_what_would_go_wrong_later_is_refused() {
        for (text, url) in [
            ("http://localhost:8787", "http://localhost:8787"),
            (" HTTP://Relay.Example:80// ", "http://relay.example"),
            ("http://a/base/", "http://a/base"),
            ("http://a//b//c", "http://a/b/c"),
            ("http://[::1]:1", "http://[::1]:1"),
        ] {
            assert_eq!(
                BondUrl::parse(text).map(|u| u.to_string()),
                Ok(url.to_owned())
            );
        }
        for bad in [
            "",
            "a:1",
            "ftp://a",
            "http://u@a",
            "http://u:p@a",
            "http://a?x",
            "http://a#x",
        ] {
            assert!(BondUrl::parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(
            BondUrl::parse("https://A:443/b/")
                .map(|u| u.to_string())
                .ok(),
            cfg!(feature = "tls").then(|| "https://a/b".to_owned())
        );
    }
}
