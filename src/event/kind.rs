//! The registry of event kinds: one number space for both domains.
//!
//! A number is never reused. A retired kind keeps its entry and its upcaster.

/// Which store an event belongs into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreKind {
    /// One per broker.
    Bus,
    /// One per identity.
    Agent,
}

impl StoreKind {
    /// Name as stored in a store's `meta` table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            StoreKind::Bus => "bus",
            StoreKind::Agent => "agent",
        }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $version:literal, $text:literal, $store:ident;)*) => {
        /// Kind of an event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum EventKind {
            $($(#[$doc])* $name,)*
        }

        impl EventKind {
            /// Every kind, in numeric order.
            pub const ALL: &'static [EventKind] = &[$(EventKind::$name,)*];

            /// The stable number in the frame.
            #[must_use]
            pub const fn number(self) -> u16 {
                match self { $(EventKind::$name => $number,)* }
            }

            /// The payload version that this program writes.
            #[must_use]
            pub const fn version(self) -> u8 {
                match self { $(EventKind::$name => $version,)* }
            }

            /// The name that people see and filter by.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(EventKind::$name => $text,)* }
            }

            /// The store that this kind belongs into.
            #[must_use]
            pub const fn store(self) -> StoreKind {
                match self { $(EventKind::$name => StoreKind::$store,)* }
            }

            /// The kind with this number.
            #[must_use]
            pub const fn from_number(number: u16) -> Option<EventKind> {
                match number { $($number => Some(EventKind::$name),)* _ => None }
            }
        }
    };
}

kinds! {
    /// A message entered a queue.
    Enqueued = 1, 2, "enqueued", Bus;
    /// A reader acknowledged messages.
    Acked = 2, 1, "acked", Bus;
    /// Messages left their queue unread: overflow or expiry.
    Dropped = 3, 1, "dropped", Bus;
    /// A session announced itself with something new.
    Announced = 4, 1, "announced", Bus;
    /// Heartbeats that changed nothing, coalesced.
    Seen = 5, 1, "seen", Bus;
    /// A session left.
    Unregistered = 6, 1, "unregistered", Bus;
    /// Sessions left the board for their age, or gave way to newcomers.
    PresenceExpired = 7, 1, "presence_expired", Bus;
    /// A body was found missing or damaged; its message left the queue.
    BodyLost = 8, 1, "body_lost", Bus;
    /// Signatures of announcements were checked: older ones of these sessions are stale.
    PresenceSigned = 9, 1, "presence_signed", Bus;
    /// Signed times of sessions are no longer remembered.
    PresenceForgotten = 10, 1, "presence_forgotten", Bus;
    /// The operator took messages out of their queue.
    Discarded = 11, 1, "discarded", Bus;
    /// The operator took sessions off the board.
    PresenceRemoved = 12, 1, "presence_removed", Bus;
    /// The message that follows was taken over from another program's queue.
    QueueImported = 13, 1, "queue_imported", Bus;
    /// A relay session was opened.
    RelayOpened = 14, 1, "relay_opened", Bus;
    /// A peer joined a relay session.
    RelayJoined = 15, 1, "relay_joined", Bus;
    /// A peer sent something into a relay session.
    RelaySent = 16, 1, "relay_sent", Bus;
    /// A peer left a relay session and another one stayed.
    RelayLeft = 17, 1, "relay_left", Bus;
    /// A relay session ended.
    RelayEnded = 18, 1, "relay_ended", Bus;
    /// A relay session is in use.
    RelayTouched = 19, 1, "relay_touched", Bus;
    /// Messages left a relay session that goes on.
    RelayErased = 20, 1, "relay_erased", Bus;
    /// A key was admitted.
    PeerAdded = 101, 1, "peer_added", Agent;
    /// A key was revoked.
    PeerRemoved = 102, 1, "peer_removed", Agent;
    /// A version of `peers.json` was published.
    PeersPublished = 103, 1, "peers_published", Agent;
    /// A process took over a session.
    LeaseTaken = 104, 1, "lease_taken", Agent;
    /// A process gave up a session.
    LeaseReleased = 105, 1, "lease_released", Agent;
    /// A signed message entered the outbox.
    OutboxQueued = 106, 1, "outbox_queued", Agent;
    /// A relay could not be reached or answered with a passing error.
    OutboxAttempted = 107, 1, "outbox_attempted", Agent;
    /// A relay took the message.
    OutboxAccepted = 108, 1, "outbox_accepted", Agent;
    /// A relay refused the message for good.
    OutboxRefused = 109, 1, "outbox_refused", Agent;
    /// An unsent message was signed anew with a fresh time.
    OutboxResigned = 110, 1, "outbox_resigned", Agent;
    /// A message passed the gate and stands in the mailbox.
    Received = 111, 1, "received", Agent;
    /// A message of an admitted peer came too late.
    ReceivedExpired = 112, 1, "received_expired", Agent;
    /// The reader acknowledged messages.
    Acknowledged = 113, 1, "acknowledged", Agent;
    /// A wake-up notice changed its state.
    NoticeChanged = 114, 1, "notice_changed", Agent;
    /// An admitted sender's message that is not stored used up its id.
    ReplaySeen = 115, 1, "replay_seen", Agent;
    /// Replay rows below a time were forgotten; what is signed at or before it is stale for ever.
    ReplayForgotten = 116, 1, "replay_forgotten", Agent;
    /// The identity's `peers.json` is another file from now on.
    PeersFileAdopted = 117, 1, "peers_file_adopted", Agent;
    /// What a hand edit of `peers.json` said in vain.
    PeersHeld = 118, 1, "peers_held", Agent;
    /// Old conversations left the store.
    HistoryForgotten = 119, 1, "history_forgotten", Agent;
    /// We ask to be admitted by a key.
    PairRequested = 120, 1, "pair_requested", Agent;
    /// A request of ours ended.
    PairRequestEnded = 121, 1, "pair_request_ended", Agent;
    /// A stranger asks to be admitted.
    KnockReceived = 122, 1, "knock_received", Agent;
    /// A stranger's request ended.
    KnockResolved = 123, 1, "knock_resolved", Agent;
    /// A request of a key that is admitted already is answered.
    KnockAnswered = 124, 1, "knock_answered", Agent;
    /// A request was accepted, but its name is taken.
    PairConflicted = 125, 1, "pair_conflicted", Agent;
    /// The operator decided about a conflict.
    PairConflictResolved = 126, 1, "pair_conflict_resolved", Agent;
    /// Requests of a key are ignored from now on.
    KeyBlocked = 127, 1, "key_blocked", Agent;
    /// Requests of a key are heard again.
    KeyUnblocked = 128, 1, "key_unblocked", Agent;
    /// A session saw what is new about pairing.
    PairNewsSeen = 129, 1, "pair_news_seen", Agent;
    /// A pairing message is sent once more under its id.
    OutboxRequeued = 130, 1, "outbox_requeued", Agent;
    /// The human was asked and said no.
    ConsentDeclined = 131, 1, "consent_declined", Agent;
    /// The operator gave an unsent message up.
    OutboxDropped = 132, 1, "outbox_dropped", Agent;
    /// The operator wants a message to be tried at once.
    OutboxRetried = 133, 1, "outbox_retried", Agent;
    /// Sessions were seen announced by their keys.
    SessionsSeen = 135, 1, "sessions_seen", Agent;
    /// A peer's session said good-bye.
    SessionClosed = 136, 1, "session_closed", Agent;
    /// Sessions left the directory.
    SessionsForgotten = 137, 1, "sessions_forgotten", Agent;
    /// The reader put messages away that came too late.
    ExpiredDismissed = 138, 1, "expired_dismissed", Agent;
    /// What was exchanged with a key was erased.
    PeerForgotten = 139, 1, "peer_forgotten", Agent;
    /// Something became known about a session's host.
    HostChanged = 145, 1, "host_changed", Agent;
    /// The records that follow were taken over from another program's state.
    Imported = 150, 1, "imported", Agent;
    /// A sealed session was made or joined.
    BondOpened = 151, 1, "bond_opened", Agent;
    /// A sealed session went on.
    BondAdvanced = 152, 1, "bond_advanced", Agent;
    /// A sealed session is over.
    BondEnded = 153, 1, "bond_ended", Agent;
    /// A text was sent in a sealed session.
    BondSaid = 154, 1, "bond_said", Agent;
    /// Texts came in a sealed session.
    BondHeard = 155, 1, "bond_heard", Agent;
    /// A file was sent in a sealed session.
    BondFileSent = 156, 1, "bond_file_sent", Agent;
    /// A file was stopped before it was sent or offered.
    BondFileBlocked = 157, 1, "bond_file_blocked", Agent;
    /// The other side of a sealed session offers a file.
    BondOffered = 158, 1, "bond_offered", Agent;
    /// Somebody decided about an offered file.
    BondDecided = 159, 1, "bond_decided", Agent;
    /// An accepted file stands on the disk.
    BondFilePlaced = 160, 1, "bond_file_placed", Agent;
    /// Something that came in a sealed session was dropped.
    BondDropped = 161, 1, "bond_dropped", Agent;
    /// A relay had let messages of a sealed session go.
    BondGap = 162, 1, "bond_gap", Agent;
    /// A call about sealed sessions failed.
    BondFailed = 163, 1, "bond_failed", Agent;
    /// A step on the way to pinning the other side of a sealed session.
    BondPin = 164, 1, "bond_pin", Agent;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_and_names_are_unique_and_map_back() {
        let numbers: BTreeSet<_> = EventKind::ALL.iter().map(|k| k.number()).collect();
        let names: BTreeSet<_> = EventKind::ALL.iter().map(|k| k.name()).collect();
        assert_eq!(numbers.len(), EventKind::ALL.len());
        assert_eq!(names.len(), EventKind::ALL.len());
        for kind in EventKind::ALL {
            assert_eq!(EventKind::from_number(kind.number()), Some(*kind));
        }
        assert_eq!(EventKind::from_number(0), None);
    }
}
