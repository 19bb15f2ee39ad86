//! The text of the allowlist.

use serde_json::{Map, Value};

use crate::domain::decide::agent::ImportOutcome;
use crate::domain::query::agent::Peer;
use crate::wire::peers::{Peers, PeersError};

/// Whether a file says what the log says.
pub(super) fn is_same(file: &Peers, log: &[Peer]) -> bool {
    file.len() == log.len() && log.iter().all(|p| file.key_of(&p.petname) == Some(p.key))
}

/// The text of the file for the log's peers. What `base` says of them beside the key stays.
pub(super) fn merged(base: &Map<String, Value>, peers: &[Peer]) -> Result<String, PeersError> {
    let object: Map<String, Value> = peers
        .iter()
        .map(|peer| {
            let mut entry = match base.get(&peer.petname) {
                Some(Value::Object(members)) => members.clone(),
                _ => Map::new(),
            };
            entry.insert("key".to_owned(), Value::String(peer.key.to_string()));
            (peer.petname.clone(), Value::Object(entry))
        })
        .collect();
    Peers::parse(&Value::Object(object).to_string())?.print()
}

/// Tells the operator what a hand edit did.
pub(super) fn report(outcome: &ImportOutcome) {
    for (name, key) in &outcome.added {
        tracing::warn!("peers file edited by hand: {name:?} ({key}) may write to this identity");
    }
    for (name, key) in &outcome.removed {
        tracing::warn!("peers file edited by hand: {name:?} ({key}) is revoked");
    }
    for (name, key) in &outcome.held {
        tracing::warn!("{name:?} ({key}) was revoked and does not come back through the file");
    }
}
