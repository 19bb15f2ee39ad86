//! Rows of an agent store.
//!
//! Each projection owns its tables and reads no others, so that any one of them can be rebuilt
//! alone. History is kept: an accepted message stays in `outbox`, an acknowledged one in
//! `mailbox`. What still needs work stands in a small table of its own (`outbox_open`,
//! `mailbox_unread`), so that the cost of a look does not grow with the history.
//! `schema/tables-agent.md` has the key layouts.

mod bonds;
mod directory;
mod held;
mod hosts;
mod mailbox;
mod notices;
mod outbox;
mod pair_pace;
mod pairing;
mod policy;
mod replay;
mod sealed_peers;
mod tasks;

pub use bonds::{BondRow, BondState, Bonds, OfferRow, OfferState};
pub use directory::{ClaimRow, Directory, DirectoryRow};
pub use held::{HeldRow, PeersHeld};
pub use hosts::{HandoffFailure, HostRow, Hosts};
pub use mailbox::{MailRow, Mailbox, RouteRow, Routes, TaskRow, UnreadRow, UpdateRef};
pub use notices::{NoticeRow, Notices};
pub use outbox::{Failure, OpenRow, Outbox, OutboxRow, RelayRow, RelayState, Sent};
pub use pair_pace::{PaceRow, PairPace};
pub use pairing::{
    AnsweredRow, BlockedRow, ConflictRow, InboundRow, NewsKind, NewsRow, OutboundRow, PairNews,
    Pairing,
};
pub use policy::{
    Holder, PeerRow, Peers, PeersFile, PeersFileRow, PublishedRow, SessionRow, Sessions, Standing,
};
pub use replay::{Expired, ExpiredRow, FloorRow, Replay, ReplayRow};
pub use sealed_peers::{SealedPeerRow, SealedPeers};
pub use tasks::{TaskInfoRow, TaskSide, TaskState, Tasks};

use serde::{Deserialize, Serialize};

use super::marks::ImportMarks;
use super::{ApplyError, Projection};
use crate::domain::tables::{TableError, TableId};
use crate::event::agent::AgentEvent;
use crate::types::id::PublicKey;
use crate::types::seq::Seq;

/// Every projection of an agent store, in the order in which they see a record.
pub const ALL: &[&dyn Projection<AgentEvent>] = &[
    &Peers,
    &PeersFile,
    &Sessions,
    &Outbox,
    &Mailbox,
    &Routes,
    &Replay,
    &Expired,
    &Notices,
    &Pairing,
    &PairNews,
    &Directory,
    &Tasks,
    &Hosts,
    &PairPace,
    &PeersHeld,
    &Bonds,
    &ImportMarks,
    &SealedPeers,
];

/// Value of an index table: the position of the record that a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeqRow {
    /// The position.
    pub seq: Seq,
}

pub(crate) fn inconsistent<T>(reason: &'static str) -> Result<T, ApplyError> {
    Err(ApplyError::Inconsistent { reason })
}

/// Reads the position at the end of a key.
pub(crate) fn seq_key(table: TableId, rest: &[u8]) -> Result<Seq, TableError> {
    Seq::from_key(rest).ok_or(TableError::Key {
        table: table.name(),
    })
}

/// Whether a row's key is one of a session and then of this key: (session, key, ...).
fn of_sender(row_key: &[u8], key: &PublicKey) -> bool {
    // The end of a self-delimiting text is the first NUL that no FF follows.
    let mut at = 0;
    while let Some(pair) = row_key.get(at..at + 2) {
        match pair {
            [0, 0] => {
                let rest = row_key.get(at + 2..).unwrap_or_default();
                return rest.starts_with(key.as_bytes());
            }
            [0, _] => at += 2,
            _ => at += 1,
        }
    }
    false
}

/// Keys of the agent tables that are more than one number.
pub mod key {
    use crate::domain::tables::KeyBuilder;
    use crate::types::id::{MsgId, PublicKey, SessionId};
    use crate::types::route::Route;
    use crate::types::seq::Seq;

    /// Key of the row in `peers_published` that copies the newest version of ours.
    pub const PUBLISHED_LATEST: [u8; 1] = [0];

    /// Key of the only row in `peers_file`.
    pub const PEERS_FILE: [u8; 1] = [0];

    /// Key of the only row in `replay_floor`.
    pub const FLOOR: [u8; 1] = [0];

    /// Key in `peers_published` of one version.
    #[must_use]
    pub fn published(sha256: &[u8; 32]) -> Vec<u8> {
        KeyBuilder::new().fixed(&[1]).fixed(sha256).build()
    }

    /// Prefix of what belongs to a session in `mailbox_unread`, `mailbox_tasks`, `routes`,
    /// `pair_news` and `tasks`.
    #[must_use]
    pub fn session(session: &SessionId) -> Vec<u8> {
        of_session(session).build()
    }

    fn of_session(session: &SessionId) -> KeyBuilder {
        KeyBuilder::new().bytes(session.as_str().as_bytes())
    }

    /// Prefix in `mailbox_by_msg` of the messages with an id; the sender's key follows.
    #[must_use]
    pub fn mails(msg_id: &MsgId) -> Vec<u8> {
        KeyBuilder::new().bytes(msg_id.as_str().as_bytes()).build()
    }

    /// Key in `mailbox_by_msg`: no session, because a message is received once by an identity.
    #[must_use]
    pub fn mail(from: &PublicKey, msg_id: &MsgId) -> Vec<u8> {
        KeyBuilder::new()
            .bytes(msg_id.as_str().as_bytes())
            .fixed(from.as_bytes())
            .build()
    }

    /// Key in `mailbox_unread` and `pair_news`.
    #[must_use]
    pub fn unread(session: &SessionId, seq: Seq) -> Vec<u8> {
        of_session(session).number(seq.0).build()
    }

    /// Key in `mailbox_tasks`.
    #[must_use]
    pub fn task(
        session: &SessionId,
        from: &PublicKey,
        reply_to: Option<&Route>,
        task_id: &str,
    ) -> Vec<u8> {
        let reply_to = reply_to.map(ToString::to_string).unwrap_or_default();
        of_session(session)
            .fixed(from.as_bytes())
            .bytes(reply_to.as_bytes())
            .bytes(task_id.as_bytes())
            .build()
    }

    /// Key in `tasks`.
    #[must_use]
    pub fn task_of(session: &SessionId, peer: &PublicKey, task_id: &str) -> Vec<u8> {
        of_session(session)
            .fixed(peer.as_bytes())
            .bytes(task_id.as_bytes())
            .build()
    }

    /// Key in `routes`.
    #[must_use]
    pub fn route(session: &SessionId, from: &PublicKey) -> Vec<u8> {
        of_session(session).fixed(from.as_bytes()).build()
    }

    /// Key in `replay`, `expired` and `pair_answered`.
    #[must_use]
    pub fn sender_msg(from: &PublicKey, msg_id: &MsgId) -> Vec<u8> {
        KeyBuilder::new()
            .fixed(from.as_bytes())
            .bytes(msg_id.as_str().as_bytes())
            .build()
    }
}
