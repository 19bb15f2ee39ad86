//! What the machine of one sealed session puts on record, as records of the log.
//!
//! The machine's rows know nothing of the log; here they get the position of their session and of the
//! offer that they are about. Decisions and written files are recorded by whoever carries them out
//! ([`Page::decide`], [`Page::placed`]) and not from rows: a decision is on record before anything
//! follows from it.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;

use super::books::BondBooks;
use crate::agent::ledger::LedgerError;
use crate::domain::audit::PENDING_CAP;
use crate::domain::decide::agent::BondNews;
use crate::domain::machine::bond::{Dropped, Ending, Failure, OfferId, Refusal, Row};
use crate::event::agent::{
    BondEnd, BondMode, BondRole, BondStep, DecidedBy, DropKind, FileWay, PeerPrefix, Routing,
    Verdict,
};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// How long the same failure of the same call is not recorded again, in milliseconds: a relay that is
/// gone fails every poll.
const SAME_FAILURE_MS: u64 = 60_000;

/// What the edge knows beside a row.
#[derive(Clone, Debug, Default)]
pub struct Beside {
    /// Of an offered file: what kind its name says.
    pub file_type: String,
    /// Of an offered file: names of the rules that found something in it.
    pub rules: Vec<String>,
    /// Of a sent file: SHA-256 of its bytes.
    pub sha256: Option<[u8; 32]>,
    /// Of an end that was asked for: by the operator, and not by a tool.
    pub operator: bool,
}

/// One sealed session in the books.
pub struct Page {
    books: BondBooks,
    mode: BondMode,
    bond: Option<Seq>,
    heard: u64,
    total: u64,
    offers: BTreeMap<OfferId, Seq>,
    failure: Option<(&'static str, Failure, UnixMillis)>,
}

impl Page {
    /// A page for a session that is about to be made or joined.
    #[must_use]
    pub fn new(books: BondBooks, mode: BondMode) -> Page {
        Page {
            books,
            mode,
            bond: None,
            heard: 0,
            total: 0,
            offers: BTreeMap::new(),
            failure: None,
        }
    }

    /// The books that it belongs to.
    #[must_use]
    pub fn books(&self) -> &BondBooks {
        &self.books
    }

    /// Position of the record that opened the session, once there is one.
    #[must_use]
    pub const fn bond(&self) -> Option<Seq> {
        self.bond
    }

    /// Position of the record of an offer.
    #[must_use]
    pub fn offer(&self, id: &OfferId) -> Option<Seq> {
        self.offers.get(id).copied()
    }

    /// Records a row of the machine. To be called with every row, in order.
    ///
    /// # Errors
    ///
    /// [`LedgerError`]; the row is not recorded then, the session may go on.
    pub async fn row(&mut self, row: &Row, beside: &Beside) -> Result<(), LedgerError> {
        match row {
            Row::SessionCreated { routing } => self.open(BondRole::Host, routing).await,
            Row::SessionJoined { routing } => self.open(BondRole::Guest, routing).await,
            Row::CallFailed { call, failure } => self.failed(call, *failure).await,
            Row::OfferReceived {
                id,
                file,
                size,
                sha256,
                from,
            } => {
                let news = BondNews::Offered {
                    id: id.as_str().to_owned(),
                    name: file.clone(),
                    size: *size,
                    file_type: beside.file_type.clone(),
                    sha256: *sha256,
                    peer: prefix(from),
                    rules: beside.rules.clone(),
                };
                if let Some(seq) = self.tell(news).await? {
                    self.offers.insert(id.clone(), seq);
                }
                Ok(())
            }
            row => match self.news(row, beside) {
                Some(news) => self.tell(news).await.map(|_| ()),
                None => Ok(()),
            },
        }
    }

    /// Records so many rows `PacketDropped` with one reason as one.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    pub async fn dropped(&self, reason: Dropped, count: u32) -> Result<(), LedgerError> {
        self.tell(drops(reason, count)).await.map(|_| ())
    }

    /// Records a decision about an offered file, before it is carried out. `None`: it was decided so
    /// before.
    ///
    /// # Errors
    ///
    /// [`LedgerError`]; a refusal when the bytes that were shown have another hash, or somebody decided
    /// otherwise before.
    pub async fn decide(
        &self,
        id: &OfferId,
        sha256: [u8; 32],
        verdict: Verdict,
        by: DecidedBy,
    ) -> Result<Option<Seq>, LedgerError> {
        let offer = self.offer(id).unwrap_or(Seq::ZERO);
        self.books.decide(offer, sha256, verdict, by).await
    }

    /// Records where an accepted file was written.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    pub async fn placed(&self, id: &OfferId, path: String, size: u64) -> Result<(), LedgerError> {
        let offer = self.offer(id).unwrap_or(Seq::ZERO);
        self.books.placed(offer, path, size).await.map(|_| ())
    }

    /// Records that the session ends with its process.
    ///
    /// # Errors
    ///
    /// [`LedgerError`].
    pub async fn quit(&self) -> Result<(), LedgerError> {
        let end = BondEnd::Quit;
        let reason = String::new();
        self.tell(BondNews::Ended { end, reason }).await.map(|_| ())
    }

    async fn open(&mut self, role: BondRole, routing: &str) -> Result<(), LedgerError> {
        let routing = routing_of(routing);
        self.bond = Some(self.books.open(role, self.mode, routing).await?);
        Ok(())
    }

    async fn tell(&self, news: BondNews) -> Result<Option<Seq>, LedgerError> {
        match self.bond {
            Some(bond) => self.books.tell(bond, news).await,
            // It was never opened: the failed call is on record.
            None => Ok(None),
        }
    }

    async fn failed(&mut self, call: &'static str, failure: Failure) -> Result<(), LedgerError> {
        let now = self.books.clock().now();
        if self.failure.is_some_and(|(old, same, at)| {
            old == call && same == failure && now.since(at) < SAME_FAILURE_MS
        }) {
            return Ok(());
        }
        self.failure = Some((call, failure, now));
        self.books.failed(self.bond, call, &reason(failure)).await
    }

    /// What a row says that is about the session and nothing else.
    fn news(&mut self, row: &Row, beside: &Beside) -> Option<BondNews> {
        let step = |step, peer| Some(BondNews::Advanced { step, peer });
        let ended = |end, reason: &str| {
            let reason = reason.to_owned();
            Some(BondNews::Ended { end, reason })
        };
        match row {
            Row::KeyExchangeCompleted { .. } => step(BondStep::Keyed, None),
            Row::KeyConfirmed { .. } => step(BondStep::Confirmed, None),
            Row::PeerDisconnected { peer } => step(BondStep::PeerGone, prefix(peer)),
            Row::ChatSent { chars } => Some(BondNews::Said {
                chars: short(*chars),
            }),
            Row::ChatReceived { count } => {
                let messages = short(count.saturating_sub(self.heard));
                self.heard = *count;
                Some(BondNews::Heard { messages })
            }
            Row::Outbound { total, .. } => {
                self.total = *total;
                None
            }
            Row::FileSent {
                file,
                size,
                note_chars,
                sha256,
            } => Some(BondNews::FileSent {
                name: file.clone(),
                size: *size,
                total: self.total,
                note_chars: short(*note_chars),
                sha256: sha256.or(beside.sha256),
            }),
            Row::SendBlocked { file, reason } => Some(BondNews::FileBlocked {
                way: FileWay::Outgoing,
                name: file.clone(),
                reason: reason.name().to_owned(),
                peer: None,
            }),
            Row::InboundBlocked { reason, from } => Some(BondNews::FileBlocked {
                way: FileWay::Incoming,
                name: String::new(),
                reason: match reason {
                    Refusal::TooManyPending => PENDING_CAP.to_owned(),
                    reason => reason.name().to_owned(),
                },
                peer: prefix(from),
            }),
            Row::PacketDropped { reason } => Some(drops(*reason, 1)),
            Row::GapDetected { missed } => Some(BondNews::Gap { missed: *missed }),
            Row::SessionAborted { reason } => ended(BondEnd::Aborted, reason.name()),
            Row::SessionEnded { reason } => match reason {
                Ending::User if beside.operator => ended(BondEnd::Operator, ""),
                Ending::User => ended(BondEnd::Tool, ""),
                Ending::Aborted(reason) => ended(BondEnd::Aborted, reason.name()),
                Ending::Expired => ended(BondEnd::Expired, ""),
                Ending::RelayLost => ended(BondEnd::RelayLost, ""),
                Ending::PeerGone => ended(BondEnd::PeerGone, ""),
                Ending::OpenFailed(failure) => ended(BondEnd::Aborted, &self::reason(*failure)),
            },
            Row::OfferAccepted { .. }
            | Row::OfferDeclined { .. }
            | Row::SessionCreated { .. }
            | Row::SessionJoined { .. }
            | Row::CallFailed { .. }
            | Row::OfferReceived { .. } => None,
        }
    }
}

/// A count that is never that large.
fn short(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// So many drops for one reason.
fn drops(reason: Dropped, count: u32) -> BondNews {
    BondNews::Dropped {
        what: kind(reason),
        reason: reason.name().to_owned(),
        count,
        peer: None,
    }
}

const fn kind(dropped: Dropped) -> DropKind {
    match dropped {
        Dropped::Nonce | Dropped::Stale | Dropped::Replay | Dropped::Reflected | Dropped::Full => {
            DropKind::Replay
        }
        Dropped::Undecryptable => DropKind::Undecryptable,
        Dropped::Malformed => DropKind::ChatMalformed,
        Dropped::NoKey | Dropped::LateTag | Dropped::UnknownType => DropKind::Other,
    }
}

/// A failure in words of this program: what a relay says of it is not recorded.
#[must_use]
pub fn reason(failure: Failure) -> String {
    match failure {
        Failure::NotAMember => "not_a_member".to_owned(),
        Failure::NoSession => "no_session".to_owned(),
        Failure::Full => "session_full".to_owned(),
        Failure::Limited { .. } => "rate_limited".to_owned(),
        Failure::Refused { status } => format!("refused_{status}"),
        Failure::Unreachable => "unreachable".to_owned(),
    }
}

/// The first 12 hex digits of a routing id; zeros where it is none.
fn routing_of(text: &str) -> Routing {
    let digits = text.get(..12).unwrap_or_default();
    let bytes = HEXLOWER.decode(digits.as_bytes()).unwrap_or_default();
    bytes.try_into().unwrap_or_default()
}

/// The first 8 hex digits of a peer id; `None` where it is none.
#[must_use]
pub fn prefix(text: &str) -> Option<PeerPrefix> {
    let bytes = HEXLOWER.decode(text.get(..8)?.as_bytes()).ok()?;
    bytes.try_into().ok()
}
