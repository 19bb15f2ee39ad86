//! The events of a room of the bus as one pattern, as [`agent::room`](super::agent) does it for an
//! identity: a projection that a whole room does not concern says so in one word.

/// Mail on its way through the queues.
macro_rules! queue_event {
    () => {
        $crate::event::bus::BusEvent::Enqueued(_)
            | $crate::event::bus::BusEvent::Acked(_)
            | $crate::event::bus::BusEvent::Dropped(_)
            | $crate::event::bus::BusEvent::Discarded(_)
            | $crate::event::bus::BusEvent::BodyLost(_)
            | $crate::event::bus::BusEvent::QueueImported(_)
    };
}
/// Who is there.
macro_rules! presence_event {
    () => {
        $crate::event::bus::BusEvent::Announced(_)
            | $crate::event::bus::BusEvent::Seen(_)
            | $crate::event::bus::BusEvent::Unregistered(_)
            | $crate::event::bus::BusEvent::PresenceExpired(_)
            | $crate::event::bus::BusEvent::PresenceSigned(_)
            | $crate::event::bus::BusEvent::PresenceForgotten(_)
            | $crate::event::bus::BusEvent::PresenceRemoved(_)
    };
}
/// Sealed sessions that are relayed.
macro_rules! relay_event {
    () => {
        $crate::event::bus::BusEvent::RelayOpened(_)
            | $crate::event::bus::BusEvent::RelayJoined(_)
            | $crate::event::bus::BusEvent::RelaySent(_)
            | $crate::event::bus::BusEvent::RelayLeft(_)
            | $crate::event::bus::BusEvent::RelayEnded(_)
            | $crate::event::bus::BusEvent::RelayTouched(_)
            | $crate::event::bus::BusEvent::RelayErased(_)
    };
}

pub(crate) use {presence_event, queue_event, relay_event};
