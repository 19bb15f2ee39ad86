//! `peers.json`: the allowlist as people read and edit it.
//!
//! Text in, text out, no files. An object maps each petname to an object with a `key`; every
//! other member of that object is somebody's note and survives a rewrite. Reading is
//! all or nothing, because half an allowlist is the wrong allowlist: one bad key or two names for
//! one key refuse the whole text.
//!
//! Names that a hand wrote are read whatever they are, with a [`PetnameWarning`]; names that our
//! tools write are [`Petname`]s.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::crypto::sign::{KeyError, decode_public_key};
use crate::types::id::{PublicKey, is_unsafe_char};
use crate::types::limit::{MAX_PEERS_FILE_BYTES, MAX_PETNAME_CHARS};

/// Names that would pass for the program or for its user.
const RESERVED: [&str; 2] = ["self", "interlink"];

/// A name that our tools may give to a peer. It is shown beside the peer's words, so it must not
/// be able to imitate anything.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Petname(String);

impl Petname {
    /// Checks a name: 1 to [`MAX_PETNAME_CHARS`] characters, no blanks around it, not `self` or
    /// `interlink` in any case, no control, separator, bidirectional or invisible characters, no
    /// quotes or angle brackets, not the text of a public key.
    ///
    /// # Errors
    ///
    /// [`PetnameError`], one variant per rule.
    pub fn parse(text: &str) -> Result<Petname, PetnameError> {
        if text.is_empty() || text.trim() != text {
            return Err(PetnameError::Blank);
        }
        if text.chars().count() > MAX_PETNAME_CHARS {
            return Err(PetnameError::TooLong);
        }
        if let Some((at, _)) = text.char_indices().find(|(_, c)| is_unfit_for_name(*c)) {
            return Err(PetnameError::BadChar { at });
        }
        if RESERVED
            .iter()
            .any(|word| text.trim().eq_ignore_ascii_case(word))
        {
            return Err(PetnameError::Reserved);
        }
        // Whoever names a key means the key.
        if text.parse::<PublicKey>().is_ok() {
            return Err(PetnameError::Key);
        }
        Ok(Petname(text.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Petname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Characters that a name must not have: what moves or hides text, and every kind of quote.
pub(crate) fn is_unfit_for_name(c: char) -> bool {
    is_unsafe_char(c)
        || matches!(c,
            '"' | '<' | '>' | '\'' | '`' | '\u{ab}' | '\u{bb}' | '\u{2018}'..='\u{201f}'
            | '\u{2039}' | '\u{203a}' | '\u{ff02}' | '\u{ff07}'
            | '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}')
}

/// Why a name is not given to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PetnameError {
    /// Nothing there, or blanks around it.
    #[error("a peer's name must not be blank or have blanks around it")]
    Blank,
    /// Over [`MAX_PETNAME_CHARS`].
    #[error("a peer's name has at most {MAX_PETNAME_CHARS} characters")]
    TooLong,
    /// `self` or `interlink`.
    #[error("`self` and `interlink` are not names for peers")]
    Reserved,
    /// 43 characters that are a public key.
    #[error("the text of a public key is not a name for a peer")]
    Key,
    /// Control, separator, bidirectional or invisible character, or a quote.
    #[error(
        "a peer's name has no quotes, angle brackets, control or invisible characters (byte {at})"
    )]
    BadChar {
        /// Offset of the character in bytes.
        at: usize,
    },
}

/// A hand-written name that our tools would not write. It counts; show it escaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PetnameWarning {
    /// The name as it stands in the file.
    pub name: String,
    /// The rule that it breaks.
    pub reason: PetnameError,
}

/// The allowlist. One key has one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Peers {
    entries: BTreeMap<String, Entry>,
}

/// One peer as the file has it.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    key: PublicKey,
    /// Members other than `key`.
    rest: BTreeMap<String, Value>,
}

/// What adding a peer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an unchanged list need not be written"]
pub enum Added {
    /// It is new.
    New,
    /// Name and key stood there already.
    Already,
}

impl Peers {
    /// Reads the text of a `peers.json`. Of a repeated petname the last one counts.
    ///
    /// # Errors
    ///
    /// [`PeersError`]; nothing of the text counts then.
    pub fn parse(text: &str) -> Result<Peers, PeersError> {
        if text.len() > MAX_PEERS_FILE_BYTES {
            return Err(PeersError::TooLong { bytes: text.len() });
        }
        let object: Map<String, Value> = serde_json::from_str(text)?;
        let mut peers = Peers::default();
        let mut names: BTreeMap<PublicKey, String> = BTreeMap::new();
        for (name, value) in object {
            let entry = Entry::read(&name, value)?;
            if let Some(other) = names.insert(entry.key, name.clone()) {
                return Err(PeersError::SharedKey {
                    first: other,
                    second: name,
                });
            }
            peers.entries.insert(name, entry);
        }
        Ok(peers)
    }

    /// The text of the file: two spaces, members sorted, a line feed at the end.
    ///
    /// # Errors
    ///
    /// [`PeersError::TooLong`] when the text would not be read back.
    pub fn print(&self) -> Result<String, PeersError> {
        let object: BTreeMap<&str, BTreeMap<&str, Value>> = self
            .entries
            .iter()
            .map(|(name, entry)| (name.as_str(), entry.members()))
            .collect();
        let mut text = Vec::new();
        let formatter = serde_json::ser::PrettyFormatter::with_indent(b"  ");
        object.serialize(&mut serde_json::Serializer::with_formatter(
            &mut text, formatter,
        ))?;
        text.push(b'\n');
        if text.len() > MAX_PEERS_FILE_BYTES {
            return Err(PeersError::TooLong { bytes: text.len() });
        }
        // serde_json writes UTF-8 only.
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Adds a peer.
    ///
    /// # Errors
    ///
    /// [`AddPeerError`]: a name is never moved to another key and a key never gets a second name,
    /// because both change who is meant without saying so.
    pub fn add(&mut self, name: &Petname, key: PublicKey) -> Result<Added, AddPeerError> {
        if let Some(entry) = self.entries.get(name.as_str()) {
            return if entry.key == key {
                Ok(Added::Already)
            } else {
                Err(AddPeerError::NameTaken {
                    name: name.to_string(),
                    key: entry.key,
                })
            };
        }
        if let Some(other) = self.name_of(&key) {
            return Err(AddPeerError::KeyTaken {
                name: other.to_owned(),
            });
        }
        let entry = Entry {
            key,
            rest: BTreeMap::new(),
        };
        self.entries.insert(name.to_string(), entry);
        Ok(Added::New)
    }

    /// Removes a peer by its name, whatever the name looks like; gives its key.
    pub fn remove(&mut self, name: &str) -> Option<PublicKey> {
        self.entries.remove(name).map(|entry| entry.key)
    }

    /// The name of a key.
    #[must_use]
    pub fn name_of(&self, key: &PublicKey) -> Option<&str> {
        self.iter().find(|(_, k)| k == key).map(|(name, _)| name)
    }

    /// The key of a name.
    #[must_use]
    pub fn key_of(&self, name: &str) -> Option<PublicKey> {
        self.entries.get(name).map(|entry| entry.key)
    }

    /// Names and keys, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, PublicKey)> {
        self.entries
            .iter()
            .map(|(name, entry)| (name.as_str(), entry.key))
    }

    /// How many peers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True when nobody is admitted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The names that break the rules of [`Petname`], sorted.
    #[must_use]
    pub fn warnings(&self) -> Vec<PetnameWarning> {
        self.entries
            .keys()
            .filter_map(|name| {
                let reason = Petname::parse(name).err()?;
                Some(PetnameWarning {
                    name: name.clone(),
                    reason,
                })
            })
            .collect()
    }
}

impl Entry {
    fn read(name: &str, value: Value) -> Result<Entry, PeersError> {
        let Value::Object(members) = value else {
            return Err(PeersError::NotAnEntry {
                name: name.to_owned(),
            });
        };
        let mut rest: BTreeMap<String, Value> = members.into_iter().collect();
        let Some(Value::String(text)) = rest.remove("key") else {
            return Err(PeersError::NoKey {
                name: name.to_owned(),
            });
        };
        let key = decode_public_key(&text).map_err(|source| PeersError::BadKey {
            name: name.to_owned(),
            source,
        })?;
        Ok(Entry { key, rest })
    }

    fn members(&self) -> BTreeMap<&str, Value> {
        self.rest
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()))
            .chain([("key", Value::String(self.key.to_string()))])
            .collect()
    }
}

/// Why a text is not an allowlist. Names are quoted with escapes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PeersError {
    /// Over [`MAX_PEERS_FILE_BYTES`].
    #[error("a peers file has at most {MAX_PEERS_FILE_BYTES} bytes, this one has {bytes}")]
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// Not a JSON object and nothing but.
    #[error("not a JSON object of peers: {0}")]
    Json(#[from] serde_json::Error),
    /// The value of a name is not an object.
    #[error("peer {name:?} is not an object with a key")]
    NotAnEntry {
        /// The peer's name.
        name: String,
    },
    /// No `key`, or one that is not text.
    #[error("peer {name:?} has no key")]
    NoKey {
        /// The peer's name.
        name: String,
    },
    /// The key is not one.
    #[error("the key of peer {name:?}: {source}")]
    BadKey {
        /// The peer's name.
        name: String,
        /// What is wrong with it.
        source: KeyError,
    },
    /// Two names for one key.
    #[error("peers {first:?} and {second:?} have the same key")]
    SharedKey {
        /// One name.
        first: String,
        /// The other.
        second: String,
    },
}

/// Why a peer was not added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddPeerError {
    /// The name belongs to another key.
    #[error("the name {name:?} belongs to another key ({key}); remove that peer first")]
    NameTaken {
        /// The name.
        name: String,
        /// Its key.
        key: PublicKey,
    },
    /// The key has another name.
    #[error("that key is listed already, as {name:?}")]
    KeyTaken {
        /// Its name.
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> PublicKey {
        use crate::crypto::sign::SigningIdentity;
        use crate::types::secret::Secret;
        SigningIdentity::from_seed(&Secret::new([byte; 32])).public()
    }

    #[test]
    fn members_that_are_not_ours_survive_a_rewrite() {
        let text = format!(
            r#"{{"b":{{"zone":[2,1],"key":"{}","may":{{"x":null}}}}}}"#,
            key(1)
        );
        let mut peers = Peers::parse(&text).unwrap();
        assert_eq!(
            peers.add(&Petname::parse("a").unwrap(), key(2)),
            Ok(Added::New)
        );
        let expected = format!(
            "{{\n  \"a\": {{\n    \"key\": \"{}\"\n  }},\n  \"b\": {{\n    \"key\": \"{}\",\n    \
             \"may\": {{\n      \"x\": null\n    }},\n    \"zone\": [\n      2,\n      1\n    ]\n  \
             }}\n}}\n",
            key(2),
            key(1)
        );
        assert_eq!(peers.print().unwrap(), expected);
        assert_eq!(peers.remove("b"), Some(key(1)));
        assert_eq!(peers.remove("b"), None);
        assert_eq!(peers.len(), 1);
    }

    #[test]
    fn names_that_could_imitate_are_not_given() {
        for bad in [
            "",
            "  ",
            "self",
            "SELF",
            " Self ",
            "InterLink",
            "a\nb",
            "a\u{202e}b",
            "a\"b",
            "it's",
            "a`b",
            "\u{201c}a\u{201d}",
            "se\u{200b}lf",
            "a\u{2028}b",
        ] {
            assert!(Petname::parse(bad).is_err(), "{bad:?}");
        }
        assert_eq!(Petname::parse(&"x".repeat(65)), Err(PetnameError::TooLong));
        for good in [
            "alice",
            "caf\u{e9}-\u{5de5}",
            "a b",
            "self-hosted",
            &"\u{e9}".repeat(64),
        ] {
            assert!(Petname::parse(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn the_text_of_a_key_is_no_name_but_loads_from_a_file() {
        let name = key(1).to_string();
        assert_eq!(Petname::parse(&name), Err(PetnameError::Key));
        assert!(Petname::parse(name.get(1..).unwrap()).is_ok());
        let peers = Peers::parse(&format!(r#"{{"{name}":{{"key":"{}"}}}}"#, key(2))).unwrap();
        assert_eq!(peers.key_of(&name), Some(key(2)));
    }

    #[test]
    fn odd_names_in_a_file_load_with_a_warning() {
        let text = format!(
            r#"{{"self":{{"key":"{}"}},"ok":{{"key":"{}"}}}}"#,
            key(1),
            key(2)
        );
        let peers = Peers::parse(&text).unwrap();
        assert_eq!(
            peers.warnings(),
            [PetnameWarning {
                name: "self".into(),
                reason: PetnameError::Reserved
            }]
        );
        assert_eq!(peers.name_of(&key(1)), Some("self"));
        assert_eq!(peers.key_of("ok"), Some(key(2)));
    }

    #[test]
    fn a_text_over_the_bound_is_refused() {
        let text = format!("{{{}}}", " ".repeat(MAX_PEERS_FILE_BYTES - 2));
        assert!(Peers::parse(&text).unwrap().is_empty());
        assert!(matches!(
            Peers::parse(&format!("{text} ")),
            Err(PeersError::TooLong { .. })
        ));
    }
}
