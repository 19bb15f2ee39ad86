//! Questions to an identity's store.
//!
//! Bodies are not rows: an answer holds the position of a body, and the caller reads it from the
//! snapshot that the answer came from.

mod bonds;
mod directory;
mod hosts;
mod mailbox;
mod outbox;
mod pairing;
mod policy;

pub use bonds::{bond, bond_offer, bond_offers, bonds, is_sealed_peer};
pub use directory::{
    KnownSession, Task, directory, directory_entry, each_task, task, tasks, unused_sessions,
};
pub use hosts::host;
pub use mailbox::{
    Line, Mail, MailState, UnreadTotals, With, conversation, expired, find_mail, floor, is_seen,
    mail_at, mail_of, mail_state, mailbox_entry, notice, route, unread, unread_totals,
};
pub use outbox::{
    Due, DueAction, DueList, DueQuery, OutMail, OutboxTotals, OutboxTroubles, RelayView, outbox_at,
    outbox_entry, outbox_open, outbox_pending, outbox_totals, outbox_troubles,
};
pub use pairing::{
    Blocked, Conflict, Inbound, News, NewsTotals, Outbound, answered, blocked, conflict_of,
    conflicts, inbound, inbound_of, is_blocked, matching_inbound, news, news_totals, outbound,
    outbound_of, pair_pace,
};
pub use policy::{
    FileVersion, Peer, SessionLease, file_version, held, is_file_behind, latest_published, lease,
    leases, peer_by_key, peer_by_name, peers, peers_file, revoked,
};
