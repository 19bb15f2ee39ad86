//! The words for what happens in a sealed session.

use std::collections::BTreeMap;

use super::desk::{AcceptedFile, Claim, OfferView};
use super::file;
use super::news::{Event, Kind};
use super::relay::{FailureKind, RelayFailure};
use crate::domain::bond::names::EscapedName;
use crate::domain::bond::preview::Offered;
use crate::domain::machine::bond::{
    AbortReason, Ending, Failure, Happening, OfferId, OwnHappening, Refusal, RelayOddity,
    SendError, TransferFailure,
};
use crate::types::text::visible;
use crate::types::time::UnixMillis;
use crate::wire::bond::file_mail::NotComing;
use crate::wire::pair::claimed_name;

/// How a decision about a file comes about.
const HOW: &str = "Ask the user whether they want it, then call bond_accept or bond_decline with this id; \
                   bond_accept asks the user again. The name is the peer's and proves nothing.";

/// Digits of a hash.
pub fn hex(hash: &[u8; 32]) -> String {
    data_encoding::HEXLOWER.encode(hash)
}

/// The event of something that happened; `None` for what tools tell themselves.
pub(super) fn event(
    now: UnixMillis,
    happening: Happening,
    offer: Option<&Offered>,
) -> Option<Event> {
    let mut transfer = None;
    let (kind, text) = match happening {
        Happening::PeerJoined => (
            Kind::Joined,
            "Somebody joined the session. It is not proven yet that they know the code.".to_owned(),
        ),
        Happening::Confirmed { verification } => (Kind::Confirmed, confirmed(verification)),
        Happening::Aborted { reason } => (
            Kind::Aborted,
            format!("SESSION ABORTED: {}", why_aborted(reason)),
        ),
        Happening::Chat {
            from,
            text,
            cut_units,
        } => (Kind::Message, message(&from, &text, cut_units)),
        Happening::FileOffered { .. } => {
            let offer = offer?;
            transfer = Some(offer.id.clone());
            (Kind::FileOffered, offer.for_model(HOW))
        }
        Happening::PeerGone => (
            Kind::PeerLeft,
            "Peer has disconnected. Nothing more can be sent or received in this session.".to_owned(),
        ),
        Happening::RelayLost => (
            Kind::RelayLost,
            "The relay does not know the session any more; it is over. A new one needs a new code."
                .to_owned(),
        ),
        Happening::Expired => (
            Kind::Expired,
            "The session expired and is over. A new one needs a new code.".to_owned(),
        ),
        Happening::Gap { missed } => (
            Kind::Gap,
            format!(
                "The relay threw away up to {missed} messages before they were fetched; what they said \
                 is lost. Ask the peer to repeat itself."
            ),
        ),
        Happening::DroppedStale {
            clock_difference_ms,
        } => (Kind::Dropped, stale(clock_difference_ms)),
        Happening::DroppedUnreadable => (
            Kind::Dropped,
            "Something that came through the relay could not be decrypted and was dropped.".to_owned(),
        ),
        Happening::DroppedMalformed => (
            Kind::Dropped,
            "A message of the peer had no proper text and was dropped.".to_owned(),
        ),
        Happening::Rejected { why } => (
            Kind::FileRejected,
            format!(
                "A file of the peer was refused before anybody was asked: {}.",
                why_refused(why)
            ),
        ),
        Happening::SecondJoiner => (
            Kind::RelayOdd,
            "Somebody else tried to join this session. If the person whom you gave the code to cannot \
             get in, end it and open another one."
                .to_owned(),
        ),
        Happening::RelayOdd { what } => (Kind::RelayOdd, odd(what).to_owned()),
        Happening::Own(happening) => own(&happening)?,
        Happening::Opened
        | Happening::OpenFailed { .. }
        | Happening::FileProgress { .. }
        | Happening::Ended => return None,
    };
    Some(Event {
        kind,
        at: now,
        transfer,
        text,
    })
}

/// What became of a file of ours, in our own mode; `ours` knows their names.
pub(super) fn transfer(
    now: UnixMillis,
    happening: &OwnHappening,
    ours: &mut BTreeMap<OfferId, String>,
) -> Option<Event> {
    let (kind, id, text) = match happening {
        OwnHappening::FileAnswered { id, taken } => {
            let name = EscapedName::of(ours.get(id)?);
            if *taken {
                let text = format!("The other side's human took {name}; it is on its way.");
                (Kind::FileTaken, id, text)
            } else {
                ours.remove(id);
                let text = format!("The other side's human declined {name}. It was not sent.");
                (Kind::FileNotTaken, id, text)
            }
        }
        OwnHappening::FileDelivered { id } => {
            let name = ours.remove(id)?;
            let name = EscapedName::of(&name);
            let text = format!("{name} is on the other side's disk, whole.");
            (Kind::FileDelivered, id, text)
        }
        OwnHappening::FileFailed { id, why } => {
            let text = match ours.remove(id) {
                Some(name) => format!(
                    "{} was not delivered: {}.",
                    EscapedName::of(&name),
                    why_failed(*why)
                ),
                None => format!("A file of the peer did not arrive: {}.", why_failed(*why)),
            };
            (Kind::FileFailed, id, text)
        }
        _ => return None,
    };
    Some(Event {
        kind,
        at: now,
        transfer: Some(id.as_str().to_owned()),
        text,
    })
}

/// Why a file does not move any more.
pub(super) const fn why_failed(why: TransferFailure) -> &'static str {
    match why {
        TransferFailure::Withdrawn => "its sender withdrew it",
        TransferFailure::Stopped => "its receiver stopped it",
        TransferFailure::Unreadable => "it cannot be read any more",
        TransferFailure::Changed => "it changed after it was offered; send it again",
        TransferFailure::NotStored => "it could not be written",
        TransferFailure::WrongContent => "its bytes are not those that were offered",
        TransferFailure::SessionOver => "the session ended first",
    }
}

/// A file arrived after nobody waited for it any more.
pub(super) fn arrived(now: UnixMillis, file: &AcceptedFile) -> Event {
    Event {
        kind: Kind::FileArrived,
        at: now,
        transfer: Some(file.offer.id.as_str().to_owned()),
        text: format!("An accepted file arrived.\n{}", saved(file)),
    }
}

/// It did not, and nobody waited for it any more.
pub(super) fn not_arrived(now: UnixMillis, why: &str) -> Event {
    Event {
        kind: Kind::FileFailed,
        at: now,
        transfer: None,
        text: format!("An accepted file is not saved: {why}."),
    }
}

/// What only our own mode has to say.
fn own(happening: &OwnHappening) -> Option<(Kind, String)> {
    match happening {
        OwnHappening::Interrupted => Some((
            Kind::Interrupted,
            "The relay lost the session, or the peer is silent. What is said is kept; the session goes \
             on by itself when there is a way."
                .to_owned(),
        )),
        OwnHappening::Resumed => Some((
            Kind::Resumed,
            "The peer is heard again; the session goes on, and nothing was lost.".to_owned(),
        )),
        OwnHappening::Undelivered { chats, .. } => Some((
            Kind::Undelivered,
            format!("{chats} messages of this side were never acknowledged by the other."),
        )),
        OwnHappening::Acknowledged { .. }
        | OwnHappening::FileQueued { .. }
        | OwnHappening::FileAnswered { .. }
        | OwnHappening::FileDelivered { .. }
        | OwnHappening::FileReceived { .. }
        | OwnHappening::FileFailed { .. }
        | OwnHappening::Pin(_) => None,
    }
}

/// The other side's card came, and our human has not agreed yet.
pub(super) fn pin_asked(now: UnixMillis, claim: &Claim) -> Event {
    let named = if claim.name.is_empty() {
        String::new()
    } else {
        format!(" It calls itself (not verified): \"{}\".", claim.name)
    };
    let text = format!(
        "The other side proved that it holds the key {} (fingerprint {}) and asks to be pinned.{named} \
         Nothing has changed. If the user wants it as a peer, call bond_pin; the user is asked.",
        claim.key,
        claim.key.fingerprint()
    );
    plain(now, Kind::PinAsked, text)
}

/// It is a peer now.
pub(super) fn pinned(now: UnixMillis, claim: &Claim, petname: &str) -> Event {
    let text = format!(
        "The other side ({}) is pinned: it is the peer \"{}\" now, and needs no code the next time.",
        claim.key,
        claimed_name(petname)
    );
    plain(now, Kind::Pinned, text)
}

/// Our human agreed, but it could not be admitted.
pub(super) fn pin_failed(now: UnixMillis, claim: &Claim, why: &str) -> Event {
    let text = format!(
        "The other side ({}) agreed to be pinned, but is not a peer here: {why}. Call bond_pin, with \
         another `petname` if that is why; the user is asked.",
        claim.key
    );
    plain(now, Kind::PinFailed, text)
}

/// A peer opens a session for a file.
pub(super) fn visited(now: UnixMillis, name: &str) -> Event {
    let text = format!(
        "\"{name}\", a peer, opens a sealed session to hand over a file. Nothing is saved before the user \
         agrees; call bond_wait for the offer."
    );
    plain(now, Kind::Joined, text)
}

/// It is there.
pub(super) fn met(now: UnixMillis, name: &str) -> Event {
    let text = format!(
        "Secure channel established with the peer \"{name}\": it proved that it holds its key."
    );
    plain(now, Kind::Confirmed, text)
}

/// The peer's human did not decide in time.
pub(super) fn undecided(now: UnixMillis) -> Event {
    let text = "The other side's user did not decide about the file in time. The session is over.";
    plain(now, Kind::Ended, text.to_owned())
}

/// The peer of a session is no peer any more.
pub(super) fn parted(now: UnixMillis) -> Event {
    let text = "The other side is no peer any more. The session is over.";
    plain(now, Kind::Ended, text.to_owned())
}

/// Why a peer's program does not come.
pub(super) const fn why_not_coming(why: NotComing) -> &'static str {
    match why {
        NotComing::Busy => {
            "the peer's program is in another sealed session; try again when that is over"
        }
        NotComing::Relay => {
            "the peer's program uses another relay for sealed sessions; both sides have to name the same \
             one with --bond-relay"
        }
        NotComing::Failed => "the peer's program could not join the session at the relay",
    }
}

/// A card that counts for nothing.
pub(super) fn pin_refused(now: UnixMillis) -> Event {
    let text = "Something that should prove who the other side is proves nothing in this session and was \
                dropped.";
    plain(now, Kind::Dropped, text.to_owned())
}

const fn plain(at: UnixMillis, kind: Kind, text: String) -> Event {
    Event {
        kind,
        at,
        transfer: None,
        text,
    }
}

fn confirmed(words: Option<String>) -> String {
    let words = words.map_or_else(String::new, |words| {
        format!(" Both sides see these words and may compare them aloud: {words}")
    });
    format!("Secure channel established: the other side proved that it knows the code.{words}")
}

fn message(from: &str, text: &str, cut_units: usize) -> String {
    let cut = if cut_units > 0 {
        format!("\n(Content truncated: {cut_units} more UTF-16 units were cut off.)")
    } else {
        String::new()
    };
    match file::chat(from, text) {
        Ok(wrapped) => format!("{wrapped}{cut}"),
        Err(e) => format!("Message from peer {from} that cannot be shown: {e}"),
    }
}

pub(super) fn accepted(now: UnixMillis, file: &AcceptedFile) -> Event {
    Event {
        kind: Kind::FileAccepted,
        at: now,
        transfer: Some(file.offer.id.as_str().to_owned()),
        text: format!("The user accepted a file in a terminal.\n{}", saved(file)),
    }
}

/// Where an accepted file is, and what is in it.
#[must_use]
pub fn saved(file: &AcceptedFile) -> String {
    format!(
        "File: {}\nSize: {} bytes\nSHA-256: {}\nSaved to: {}\n\n{}",
        file.offer.name,
        file.offer.size,
        hex(&file.offer.sha256),
        visible(&file.placed.path.to_string_lossy()),
        file.content
    )
}

pub(super) fn declined(now: UnixMillis, offer: &OfferView) -> Event {
    Event {
        kind: Kind::FileDeclined,
        at: now,
        transfer: Some(offer.id.as_str().to_owned()),
        text: format!(
            "The user declined a file in a terminal.\nFile: {}\nTransfer ID: {}",
            offer.name,
            offer.id.as_str()
        ),
    }
}

pub(super) fn ended(now: UnixMillis) -> Event {
    Event {
        kind: Kind::Ended,
        at: now,
        transfer: None,
        text: "The user ended the session in a terminal.".to_owned(),
    }
}

/// The word that records hold.
pub(super) const fn send_error_name(e: &SendError) -> &'static str {
    match e {
        SendError::NotConfirmed => "not_confirmed",
        SendError::Over(_) => "over",
        SendError::Cooldown { .. } => "cooldown",
        SendError::Busy => "busy",
        SendError::Empty => "empty",
        SendError::TooLong { .. } => "too_long",
        SendError::File(why) => why.name(),
        SendError::TooLarge => "too_large",
        SendError::Seal => "seal",
    }
}

fn stale(clock_difference_ms: i64) -> String {
    let seconds = clock_difference_ms.unsigned_abs() / 1000;
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    let which = if clock_difference_ms > 0 {
        "ahead of"
    } else {
        "behind"
    };
    format!(
        "A packet of the peer was dropped: its time is {minutes} min {seconds} s {which} this \
         machine's. Either the clocks differ by that, or the packet was held back on its way."
    )
}

const fn odd(what: RelayOddity) -> &'static str {
    match what {
        RelayOddity::CursorPush => {
            "The relay claims a position that cannot be true; it was not believed."
        }
        RelayOddity::Reflection => {
            "The relay handed this side its own messages; they were dropped. Such a relay is broken or \
             hostile."
        }
    }
}

const fn why_aborted(reason: AbortReason) -> &'static str {
    match reason {
        AbortReason::Decryption => {
            "decryption failed before the other side was confirmed: another code was typed, or the relay \
             changed the keys. Nothing was sent. Open a new session with a new code"
        }
        AbortReason::WrongTag => {
            "the other side does not know the code, or the relay changed the keys. Nothing was sent. Open \
             a new session with a new code"
        }
        AbortReason::Unconfirmed => {
            "the other side sent content before it was confirmed; it was not looked at"
        }
        AbortReason::BadKey => "the other side's public key is no proper key",
    }
}

/// Why a file of the peer, or one of ours, does not pass.
pub(super) const fn why_refused(why: Refusal) -> &'static str {
    match why {
        Refusal::Type => "files of this type are not exchanged",
        Refusal::BlockedName => "its name looks like a key or a credential",
        Refusal::BadName => "its name is not safe",
        Refusal::TooLarge => "it is too large",
        Refusal::Malformed => "it is not a proper file",
        Refusal::TooManyPending => "too many files wait for a decision already",
        Refusal::Budget => "this session has sent as much as it may; open a new one",
    }
}

/// Why something is not sent.
pub(super) fn why_not_sent(e: &SendError) -> String {
    match e {
        SendError::NotConfirmed => {
            "not sent: the secure channel is not established yet; bond_wait until it is".to_owned()
        }
        SendError::Over(ending) => format!("not sent: {}", why_over(*ending)),
        SendError::Cooldown { left_ms } => format!(
            "Rate limit: one message or file every 10 seconds; wait {} s",
            left_ms.div_ceil(1000)
        ),
        SendError::Busy => "not sent: the one before is still on its way".to_owned(),
        SendError::Empty => "not sent: there is nothing to say".to_owned(),
        SendError::TooLong { units } => {
            format!("not sent: the text has {units} UTF-16 units, and 4000 is the most")
        }
        SendError::File(why) => format!("not sent: {}", why_refused(*why)),
        SendError::TooLarge => "not sent: once encrypted it is too large for the relay".to_owned(),
        _ => "not sent: it could not be encrypted".to_owned(),
    }
}

/// What is wrong with a session that is over.
pub const fn why_over(ending: Ending) -> &'static str {
    match ending {
        Ending::User => "the session was ended",
        Ending::Aborted(reason) => why_aborted(reason),
        Ending::Expired => "the session expired",
        Ending::RelayLost => "the relay does not know the session any more",
        Ending::PeerGone => "Peer has disconnected; the session is over",
        Ending::OpenFailed(_) => "the session was never opened",
    }
}

/// Why the relay did not open a session.
pub(super) fn why_not_opened(failure: Failure, said: &str) -> String {
    let hint = match failure {
        Failure::NoSession => {
            "there is no session of this code: it expired, was ended, or the code has a slip in it. "
        }
        Failure::Full => "two are in this session already. ",
        Failure::Limited { .. } => "Rate limit of the relay; try again later. ",
        _ => "",
    };
    format!("{hint}{said}")
}

/// Why the relay did not take something.
pub(super) fn why_not_posted(e: &RelayFailure) -> String {
    match (e.kind, e.retry_after_ms) {
        (FailureKind::Status(429), wait) => {
            let seconds = wait.unwrap_or(10_000).div_ceil(1000);
            format!(
                "Rate limit of the relay; try again in {seconds} s. {}",
                e.detail
            )
        }
        (FailureKind::Status(_), _) => e.detail.clone(),
        (FailureKind::Unreachable | FailureKind::Nonsense, _) => {
            format!("{}; whether the peer gets it is not known", e.detail)
        }
    }
}
