//! The events of a room as one pattern. A projection that a whole room does not concern says so in
//! one word, and the compiler still asks it about every new event.

/// Who may write, who polls for a session, and the marks of what was taken over, which concern no
/// row.
macro_rules! policy_event {
    () => {
        $crate::event::agent::AgentEvent::PeerAdded(_)
            | $crate::event::agent::AgentEvent::PeerRemoved(_)
            | $crate::event::agent::AgentEvent::PeersPublished(_)
            | $crate::event::agent::AgentEvent::PeersFileAdopted(_)
            | $crate::event::agent::AgentEvent::PeersHeld(_)
            | $crate::event::agent::AgentEvent::LeaseTaken(_)
            | $crate::event::agent::AgentEvent::LeaseReleased(_)
            | $crate::event::agent::AgentEvent::Imported(_)
    };
}
/// Our messages on their way.
macro_rules! outbox_event {
    () => {
        $crate::event::agent::AgentEvent::OutboxQueued(_)
            | $crate::event::agent::AgentEvent::OutboxAttempted(_)
            | $crate::event::agent::AgentEvent::OutboxAccepted(_)
            | $crate::event::agent::AgentEvent::OutboxRefused(_)
            | $crate::event::agent::AgentEvent::OutboxResigned(_)
            | $crate::event::agent::AgentEvent::OutboxRequeued(_)
            | $crate::event::agent::AgentEvent::OutboxDropped(_)
            | $crate::event::agent::AgentEvent::OutboxRetried(_)
    };
}
/// What came in, and who was told.
macro_rules! mailbox_event {
    () => {
        $crate::event::agent::AgentEvent::Received(_)
            | $crate::event::agent::AgentEvent::ReceivedExpired(_)
            | $crate::event::agent::AgentEvent::Acknowledged(_)
            | $crate::event::agent::AgentEvent::NoticeChanged(_)
            | $crate::event::agent::AgentEvent::ReplaySeen(_)
            | $crate::event::agent::AgentEvent::ReplayForgotten(_)
    };
}
/// Whose sessions there are, and what is not to be remembered.
macro_rules! directory_event {
    () => {
        $crate::event::agent::AgentEvent::SessionsSeen(_)
            | $crate::event::agent::AgentEvent::SessionClosed(_)
            | $crate::event::agent::AgentEvent::SessionsForgotten(_)
            | $crate::event::agent::AgentEvent::ExpiredDismissed(_)
            | $crate::event::agent::AgentEvent::PeerForgotten(_)
            | $crate::event::agent::AgentEvent::HistoryForgotten(_)
    };
}
/// How strangers become peers. `OutboxRequeued` belongs to the outbox.
macro_rules! pairing_event {
    () => {
        $crate::event::agent::AgentEvent::PairRequested(_)
            | $crate::event::agent::AgentEvent::PairRequestEnded(_)
            | $crate::event::agent::AgentEvent::KnockReceived(_)
            | $crate::event::agent::AgentEvent::KnockResolved(_)
            | $crate::event::agent::AgentEvent::KnockAnswered(_)
            | $crate::event::agent::AgentEvent::PairConflicted(_)
            | $crate::event::agent::AgentEvent::PairConflictResolved(_)
            | $crate::event::agent::AgentEvent::KeyBlocked(_)
            | $crate::event::agent::AgentEvent::KeyUnblocked(_)
            | $crate::event::agent::AgentEvent::PairNewsSeen(_)
            | $crate::event::agent::AgentEvent::ConsentDeclined(_)
    };
}
/// Sealed sessions.
macro_rules! bond_event {
    () => {
        $crate::event::agent::AgentEvent::BondOpened(_)
            | $crate::event::agent::AgentEvent::BondAdvanced(_)
            | $crate::event::agent::AgentEvent::BondEnded(_)
            | $crate::event::agent::AgentEvent::BondSaid(_)
            | $crate::event::agent::AgentEvent::BondHeard(_)
            | $crate::event::agent::AgentEvent::BondFileSent(_)
            | $crate::event::agent::AgentEvent::BondFileBlocked(_)
            | $crate::event::agent::AgentEvent::BondOffered(_)
            | $crate::event::agent::AgentEvent::BondDecided(_)
            | $crate::event::agent::AgentEvent::BondFilePlaced(_)
            | $crate::event::agent::AgentEvent::BondDropped(_)
            | $crate::event::agent::AgentEvent::BondGap(_)
            | $crate::event::agent::AgentEvent::BondFailed(_)
            | $crate::event::agent::AgentEvent::BondPin(_)
    };
}

pub(crate) use {
    bond_event, directory_event, mailbox_event, outbox_event, pairing_event, policy_event,
};
