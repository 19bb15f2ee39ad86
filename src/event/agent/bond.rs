//! Sealed sessions: what happened in them, and what was decided about files.
//!
//! No event holds a code, a key, a text or the content of a file, and none of them could: there is no
//! field for it. A session is named by the position of the record that opened it, beside the first
//! twelve digits of its routing id and the process that holds it, so that each record tells its own
//! line of `audit.log` (`domain::audit`) without another one. Names that a peer chose are spelled out
//! and cut before they come here.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::hex;
use crate::types::id::SessionId;
use crate::types::seq::Seq;

/// The beginning of a routing id: 12 hex digits.
pub type Routing = [u8; 6];
/// The beginning of a peer id: 8 hex digits.
pub type PeerPrefix = [u8; 4];

/// Which sealed session, and whose process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BondRef {
    /// Position of its `bond_opened` record.
    pub bond: Seq,
    /// The beginning of its routing id.
    pub routing: Routing,
    /// The process that writes.
    pub pid: u32,
}

/// Which end of a sealed session this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BondRole {
    /// Made the session.
    Host,
    /// Joined it.
    Guest,
}

/// How a sealed session is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BondMode {
    /// As the public Covalent Bond client does it.
    Legacy,
    /// As two of this program do it.
    Own,
}

/// A step of a sealed session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BondStep {
    /// The other side came.
    PeerJoined,
    /// Both know a common key; nothing proves yet whose it is.
    Keyed,
    /// The other side proved that it knows the code.
    Confirmed,
    /// The other side said good-bye.
    PeerGone,
    /// The relay does not know the session any more, or is not reached.
    RelayLost,
    /// The relay answers again.
    RelayBack,
}

/// How a sealed session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BondEnd {
    /// A tool ended it.
    Tool,
    /// The operator ended it.
    Operator,
    /// It was broken off because something did not fit.
    Aborted,
    /// Its time was over.
    Expired,
    /// The process ended.
    Quit,
    /// The relay lost it.
    RelayLost,
    /// The other side left.
    PeerGone,
}

/// Which way a file goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum FileWay {
    /// From here.
    Outgoing,
    /// To here.
    Incoming,
}

/// What was decided about an offered file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// It may be written.
    Accepted,
    /// It is thrown away.
    Declined,
}

/// Through what a decision came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DecidedBy {
    /// The human, in a form that the host showed.
    Form,
    /// The human, on a terminal.
    Operator,
    /// A tool, without a human; only where that was configured.
    Tool,
}

/// Why something that came was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum DropKind {
    /// A text that is none.
    ChatMalformed,
    /// Seen before, our own, or of another time.
    Replay,
    /// Not readable with the session's key.
    Undecryptable,
    /// Of no use for another reason.
    Other,
}

macro_rules! names {
    ($type:ident: $($variant:ident = $name:literal),* $(,)?) => {
        impl $type {
            /// The word that people and scripts see.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($type::$variant => $name,)* }
            }
        }
    };
}

names!(BondRole: Host = "host", Guest = "guest");
names!(BondMode: Legacy = "legacy", Own = "own");
names!(BondStep: PeerJoined = "peer_joined", Keyed = "keyed", Confirmed = "confirmed",
    PeerGone = "peer_gone", RelayLost = "relay_lost", RelayBack = "relay_back");
names!(BondEnd: Tool = "tool", Operator = "operator", Aborted = "aborted", Expired = "expired",
    Quit = "quit", RelayLost = "relay_lost", PeerGone = "peer_gone");
names!(FileWay: Outgoing = "outgoing", Incoming = "incoming");
names!(Verdict: Accepted = "accepted", Declined = "declined");
names!(DecidedBy: Form = "form", Operator = "operator", Tool = "tool");
names!(DropKind: ChatMalformed = "chat_malformed", Replay = "replay",
    Undecryptable = "undecryptable", Other = "other");

impl BondRef {
    /// The members that name it, and others.
    fn with(&self, mut rest: Value) -> Value {
        if let Value::Object(map) = &mut rest {
            map.insert("bond".to_owned(), json!(self.bond));
            map.insert("routing".to_owned(), json!(hex(&self.routing)));
            map.insert("pid".to_owned(), json!(self.pid));
        }
        rest
    }
}

fn prefix(peer: Option<PeerPrefix>) -> Option<String> {
    peer.map(|peer| hex(&peer))
}

/// A sealed session was made or joined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BondOpened {
    /// The conversation that it belongs to.
    pub session: SessionId,
    /// The process that holds it.
    pub pid: u32,
    /// The kernel's start time of that process; 0 where it is not known.
    pub process_start: u64,
    /// Which end.
    pub role: BondRole,
    /// How it is sealed.
    pub mode: BondMode,
    /// The beginning of its routing id.
    pub routing: Routing,
}

impl BondOpened {
    pub(super) fn json(&self) -> Value {
        json!({
            "session": self.session, "pid": self.pid, "process_start": self.process_start,
            "role": self.role.name(), "mode": self.mode.name(), "routing": hex(&self.routing),
        })
    }
}

/// A sealed session went on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BondAdvanced {
    /// Which session.
    pub of: BondRef,
    /// Its role at this end.
    pub role: BondRole,
    /// The step.
    pub step: BondStep,
    /// The other side's prefix, where it is known.
    pub peer: Option<PeerPrefix>,
}

impl BondAdvanced {
    pub(super) fn json(&self) -> Value {
        self.of.with(json!({
            "role": self.role.name(), "step": self.step.name(), "peer": prefix(self.peer),
        }))
    }
}

/// A sealed session is over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BondEnded {
    /// Which session.
    pub of: BondRef,
    /// How.
    pub end: BondEnd,
    /// More about it, in words of this program; at most 256 bytes, often empty.
    pub reason: String,
}

impl BondEnded {
    pub(super) fn json(&self) -> Value {
        self.of
            .with(json!({ "end": self.end.name(), "reason": self.reason }))
    }
}

/// A text was sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BondSaid {
    /// Which session.
    pub of: BondRef,
    /// Its length in UTF-16 units.
    pub chars: u32,
}

impl BondSaid {
    pub(super) fn json(&self) -> Value {
        self.of.with(json!({ "chars": self.chars }))
    }
}

/// Texts came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BondHeard {
    /// Which session.
    pub of: BondRef,
    /// How many.
    pub messages: u32,
}

impl BondHeard {
    pub(super) fn json(&self) -> Value {
        self.of.with(json!({ "messages": self.messages }))
    }
}

/// A file was sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BondFileSent {
    /// Which session.
    pub of: BondRef,
    /// Its name, spelled out and cut.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// Bytes of all files that were sent in this session.
    pub total: u64,
    /// Length of the note beside it in UTF-16 units.
    pub note_chars: u32,
    /// SHA-256 of its bytes, where it was taken.
    pub sha256: Option<[u8; 32]>,
}

impl BondFileSent {
    pub(super) fn json(&self) -> Value {
        self.of.with(json!({
            "name": self.name, "size": self.size, "total": self.total,
            "note_chars": self.note_chars, "sha256": self.sha256.map(|digest| hex(&digest)),
        }))
    }
}

/// A file was stopped, before it was sent or before anybody was asked about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BondFileBlocked {
    /// Which session.
    pub of: BondRef,
    /// Which way it would have gone.
    pub way: FileWay,
    /// Its name, spelled out and cut; empty where it has none.
    pub name: String,
    /// Why, in words of this program; at most 256 bytes.
    pub reason: String,
    /// The other side's prefix, where it is known.
    pub peer: Option<PeerPrefix>,
}

impl BondFileBlocked {
    pub(super) fn json(&self) -> Value {
        self.of.with(json!({
            "way": self.way.name(), "name": self.name, "reason": self.reason,
            "peer": prefix(self.peer),
        }))
    }
}

/// The other side offers a file. Its content is in the memory of the process and nowhere else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BondOffered {
    /// Which session.
    pub of: BondRef,
    /// The offer's id; at most 64 bytes.
    pub id: String,
    /// The file's name, spelled out and cut.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// What kind of file the name says; at most 32 bytes.
    pub file_type: String,
    /// SHA-256 of its bytes.
    pub sha256: [u8; 32],
    /// The other side's prefix, where it is known.
    pub peer: Option<PeerPrefix>,
    /// Names of the rules that found something in it; at most 16.
    pub rules: Vec<String>,
}

impl BondOffered {
    pub(super) fn json(&self) -> Value {
        self.of.with(json!({
            "id": self.id, "name": self.name, "size": self.size, "file_type": self.file_type,
            "sha256": hex(&self.sha256), "peer": prefix(self.peer), "rules": self.rules,
        }))
    }
}

/// Somebody decided about an offered file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BondDecided {
    /// Which session.
    pub of: BondRef,
    /// Position of the `bond_offered` record.
    pub offer: Seq,
    /// The offer's id.
    pub id: String,
    /// The file's name, as it was shown.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// SHA-256 of the bytes that the decision is about.
    pub sha256: [u8; 32],
    /// The other side's prefix, where it is known.
    pub peer: Option<PeerPrefix>,
    /// The decision.
    pub verdict: Verdict,
    /// Through what it came.
    pub by: DecidedBy,
}

impl BondDecided {
    pub(super) fn json(&self) -> Value {
        self.of.with(json!({
            "offer": self.offer, "id": self.id, "name": self.name, "size": self.size,
            "sha256": hex(&self.sha256), "peer": prefix(self.peer),
            "verdict": self.verdict.name(), "by": self.by.name(),
        }))
    }
}

/// An accepted file stands on the disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BondFilePlaced {
    /// Which session.
    pub of: BondRef,
    /// Position of the `bond_offered` record.
    pub offer: Seq,
    /// Where; at most 4096 bytes.
    pub path: String,
    /// Its bytes.
    pub size: u64,
}

impl BondFilePlaced {
    pub(super) fn json(&self) -> Value {
        self.of.with(json!({
            "offer": self.offer, "path": self.path, "size": self.size,
        }))
    }
}

/// Something that came was dropped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BondDropped {
    /// Which session.
    pub of: BondRef,
    /// What kind of drop.
    pub what: DropKind,
    /// Why, in words of this program; at most 256 bytes.
    pub reason: String,
    /// How many.
    pub count: u32,
    /// The other side's prefix, where it is known.
    pub peer: Option<PeerPrefix>,
}

impl BondDropped {
    pub(super) fn json(&self) -> Value {
        self.of.with(json!({
            "what": self.what.name(), "reason": self.reason, "count": self.count,
            "peer": prefix(self.peer),
        }))
    }
}

/// The relay had let messages go before they were fetched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BondGap {
    /// Which session.
    pub of: BondRef,
    /// How many are missed.
    pub missed: u64,
}

impl BondGap {
    pub(super) fn json(&self) -> Value {
        self.of.with(json!({ "missed": self.missed }))
    }
}

/// A call about sealed sessions failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BondFailed {
    /// The conversation.
    pub session: SessionId,
    /// The process.
    pub pid: u32,
    /// Position of the `bond_opened` record, where there was a session.
    pub bond: Option<Seq>,
    /// What was called; at most 64 bytes.
    pub call: String,
    /// Why it failed, spelled out; at most 256 bytes.
    pub reason: String,
}

impl BondFailed {
    pub(super) fn json(&self) -> Value {
        json!({
            "session": self.session, "pid": self.pid, "bond": self.bond, "call": self.call,
            "reason": self.reason,
        })
    }
}
