//! Wishes about pairing, answers, and refusals.

use std::sync::Arc;

use crate::domain::decide::agent::{AgentCommand, Lease};
use crate::domain::gate::Windows;
use crate::event::agent::{Origin, Question};
use crate::types::id::{MsgId, PublicKey, SessionId};
use crate::types::limit::{MAX_BLOCKED_KEYS, MAX_PAIR_OUTBOUND};
use crate::types::seq::Seq;
use crate::types::time::UnixMillis;

/// A signed pairing message for the outbox. Kind, recipient and correlation follow from the
/// command that carries it.
#[derive(Clone, Debug)]
pub struct ControlMail {
    /// Id of the message.
    pub msg_id: MsgId,
    /// Signed time.
    pub ts: UnixMillis,
    /// The signed message, JSON.
    pub body: Arc<[u8]>,
    /// SHA-256 of the body.
    pub sha256: [u8; 32],
    /// Relays that shall get it, normalised URLs; 1 to 16.
    pub relays: Vec<String>,
}

/// Asks a key for admission, or asks it again.
#[derive(Clone, Debug)]
pub struct RequestPair {
    /// Our session that asks and gets the answer.
    pub lease: Lease,
    /// Our own key, which needs no admission.
    pub own: PublicKey,
    /// Whom we ask.
    pub key: PublicKey,
    /// The petname that the key gets when it accepts: what the user called it. A key that is
    /// admitted already keeps the one it has.
    pub name: String,
    /// The session that is asked.
    pub to_session: SessionId,
    /// Whether the user agrees to it now. Otherwise it is carried out only where it opens no new way
    /// in: to a peer, or as a request that waits under this name already.
    pub agreed: bool,
    /// How the wish came in.
    pub origin: Origin,
    /// The signed `pair_request`. Its id is that of the request: of the existing one, where there
    /// is one ([`outbound_of`](crate::domain::query::agent::outbound_of)).
    pub mail: ControlMail,
    /// Now.
    pub now: UnixMillis,
}

/// Takes in a request whose signature, recipient and reply route were verified.
#[derive(Clone, Debug)]
pub struct TakeKnock {
    /// The session whose queue it came through.
    pub lease: Lease,
    /// Our own key.
    pub own: PublicKey,
    /// The verified sender.
    pub from: PublicKey,
    /// Id of the request.
    pub request_id: MsgId,
    /// Signed time.
    pub ts: UnixMillis,
    /// The name that the sender claims, as it came.
    pub name: String,
    /// The sender's session that waits for the answer.
    pub reply_session: SessionId,
    /// How far the signed time may be from now.
    pub windows: Windows,
    /// Now.
    pub now: UnixMillis,
}

/// Admits a stranger and answers its request, in one transaction.
#[derive(Clone, Debug)]
pub struct AcceptPair {
    /// The session that acts, if one does. The operator's tool needs none.
    pub lease: Option<Lease>,
    /// Who asked.
    pub key: PublicKey,
    /// Id of the request that the operator saw.
    pub request_id: MsgId,
    /// The petname of the operator's choice; `None`: the claimed name, if it can be one. A key
    /// that is admitted already keeps the one it has.
    pub petname: Option<String>,
    /// Who decided.
    pub origin: Origin,
    /// The signed `pair_accept`, with the request's id as `in_reply_to`. It is sent on behalf of
    /// the session that got the request, to the one that waits for the answer.
    pub mail: ControlMail,
    /// Now.
    pub now: UnixMillis,
}

/// Answers a request of a key that is admitted already: its side lost the admission or never
/// learnt of it.
#[derive(Clone, Debug)]
pub struct AnswerKnock {
    /// The session that answers.
    pub lease: Lease,
    /// Who asked.
    pub key: PublicKey,
    /// Id of the request.
    pub request_id: MsgId,
    /// Signed time of the request.
    pub knock_ts: UnixMillis,
    /// The session that gets the answer; a route that was found on the verified roster.
    pub to_session: SessionId,
    /// The signed `pair_accept`, with the request's id as `in_reply_to`.
    pub mail: ControlMail,
    /// Now.
    pub now: UnixMillis,
}

/// Takes in an acceptance whose signature and recipient were verified.
#[derive(Clone, Debug)]
pub struct TakeAcceptance {
    /// The session whose queue it came through.
    pub lease: Lease,
    /// The verified sender.
    pub from: PublicKey,
    /// Signed time.
    pub ts: UnixMillis,
    /// The request that it answers; `None`, or empty, in what older programs send: it counts for
    /// whatever request of ours the sender got.
    pub in_reply_to: Option<MsgId>,
    /// How far the signed time may be from now.
    pub windows: Windows,
    /// Now.
    pub now: UnixMillis,
}

/// A wish about pairing.
///
/// `lease` is the session that acts, where one does; the operator's tool has none.
#[derive(Clone, Debug)]
pub enum PairingCommand {
    /// Ask a key for admission, or ask again. Answer: [`PairingReply::Requested`].
    Request(Box<RequestPair>),
    /// Take in a request. Answer: [`PairingReply::Knock`].
    TakeKnock(Box<TakeKnock>),
    /// Admit a stranger and answer its request. Answer: [`PairingReply::Accepted`].
    Accept(Box<AcceptPair>),
    /// Let a request drop. Nothing is sent; copies of the request are ignored from then on.
    /// Answer: [`PairingReply::Changed`].
    Reject {
        /// The session that acts.
        lease: Option<Lease>,
        /// Who asked.
        key: PublicKey,
        /// Id of the request that the operator saw; `None`: whichever there is.
        request_id: Option<MsgId>,
        /// Who decided.
        origin: Origin,
        /// Now.
        now: UnixMillis,
    },
    /// Call off a request of ours: nothing more of it is sent, and a later answer is ignored. Of a
    /// conflict: drop it. Answer: [`PairingReply::Changed`].
    Cancel {
        /// The session that acts.
        lease: Option<Lease>,
        /// Whom we asked.
        key: PublicKey,
        /// Who decided.
        origin: Origin,
        /// Now.
        now: UnixMillis,
    },
    /// Answer a request of a key that is admitted already. Answer: [`PairingReply::Answered`].
    Answer(Box<AnswerKnock>),
    /// Take in an acceptance. Answer: [`PairingReply::Acceptance`].
    TakeAcceptance(Box<TakeAcceptance>),
    /// Admit a key that accepted, under another name than the request had. Answer:
    /// [`PairingReply::Resolved`].
    ResolveConflict {
        /// The session that acts.
        lease: Option<Lease>,
        /// Who accepted.
        key: PublicKey,
        /// The name that it gets; a key that is admitted already keeps the one it has.
        petname: String,
        /// Who decided.
        origin: Origin,
        /// Now.
        now: UnixMillis,
    },
    /// Ignore requests of a key from now on; what waits in either direction ends. Answer:
    /// [`PairingReply::Changed`].
    Block {
        /// The session that acts.
        lease: Option<Lease>,
        /// The key.
        key: PublicKey,
        /// Who decided.
        origin: Origin,
        /// Now.
        now: UnixMillis,
    },
    /// Hear requests of a key again. Answer: [`PairingReply::Changed`].
    Unblock {
        /// The session that acts.
        lease: Option<Lease>,
        /// The key.
        key: PublicKey,
        /// Who decided.
        origin: Origin,
        /// Now.
        now: UnixMillis,
    },
    /// A session saw what is new. Answer: [`PairingReply::Changed`].
    SeeNews {
        /// The session.
        lease: Lease,
        /// Position of the newest news that it saw.
        up_to: Seq,
        /// Now.
        now: UnixMillis,
    },
    /// End what waits for too long, in both directions. Answer: [`PairingReply::Ended`].
    Expire {
        /// Now.
        now: UnixMillis,
    },
    /// Record that the human was asked and said no. Nothing follows from it. Answer:
    /// [`PairingReply::Changed`].
    Decline {
        /// The session that asked.
        lease: Lease,
        /// What it was about.
        question: Question,
        /// The key that it was about.
        key: PublicKey,
        /// Now.
        now: UnixMillis,
    },
}

impl PairingCommand {
    /// The lease under which it acts.
    pub(in crate::domain::decide::agent) const fn lease(&self) -> Option<&Lease> {
        match self {
            PairingCommand::Request(wish) => Some(&wish.lease),
            PairingCommand::TakeKnock(wish) => Some(&wish.lease),
            PairingCommand::Accept(wish) => wish.lease.as_ref(),
            PairingCommand::Answer(wish) => Some(&wish.lease),
            PairingCommand::TakeAcceptance(wish) => Some(&wish.lease),
            PairingCommand::SeeNews { lease, .. } | PairingCommand::Decline { lease, .. } => {
                Some(lease)
            }
            PairingCommand::Reject { lease, .. }
            | PairingCommand::Cancel { lease, .. }
            | PairingCommand::ResolveConflict { lease, .. }
            | PairingCommand::Block { lease, .. }
            | PairingCommand::Unblock { lease, .. } => lease.as_ref(),
            PairingCommand::Expire { .. } => None,
        }
    }

    /// Bytes of bodies that it carries.
    pub(in crate::domain::decide::agent) fn weight(&self) -> usize {
        match self {
            PairingCommand::Request(wish) => wish.mail.body.len(),
            PairingCommand::Accept(wish) => wish.mail.body.len(),
            PairingCommand::Answer(wish) => wish.mail.body.len(),
            PairingCommand::TakeKnock(wish) => wish.name.len(),
            _ => 0,
        }
    }
}

impl From<PairingCommand> for AgentCommand {
    fn from(command: PairingCommand) -> AgentCommand {
        AgentCommand::Pairing(command)
    }
}

/// What became of a stranger's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Knock {
    /// It waits for the operator.
    Waiting {
        /// Whether it is worth waking somebody.
        news: bool,
    },
    /// It waited already: a copy, perhaps with another name or route, which counts now.
    Known,
    /// A newer request of this key waits.
    Older,
    /// The key asked too often of late; its last request waits.
    Often,
    /// Too many wait, and all of them came lately; it is not kept.
    Crowded,
    /// It was decided before: a copy.
    Decided,
    /// The sender is admitted. Unless `answered`, answer with
    /// [`PairingCommand::Answer`].
    AlreadyPeer {
        /// Its petname.
        petname: String,
        /// Whether this very request was answered before, or another one a moment ago.
        answered: bool,
    },
    /// The operator does not want to hear of this key.
    Blocked,
    /// It is our own.
    Own,
    /// It came too late.
    TooOld,
    /// It claims to come from the future.
    Future {
        /// How far ahead, in milliseconds.
        ahead_ms: u64,
    },
}

/// What became of an acceptance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acceptance {
    /// The sender is admitted.
    Paired {
        /// Its petname.
        petname: String,
        /// Whether it was admitted before, under this name.
        known: bool,
        /// A request of the sender that waited here and is settled with this. Its side may still
        /// wait for an answer ([`PairingCommand::Answer`]).
        knock: Option<WaitingKnock>,
    },
    /// It cannot be admitted under the name that the request had; the operator has to decide.
    Conflict {
        /// That name.
        name: String,
        /// The key that has the name, if that is it; else the list of peers is full.
        holder: Option<PublicKey>,
    },
    /// We asked for nothing, or for something else.
    Unsolicited,
    /// It came too late.
    TooOld,
    /// It claims to come from the future.
    Future {
        /// How far ahead, in milliseconds.
        ahead_ms: u64,
    },
}

/// A request that was waiting here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingKnock {
    /// Id of the request.
    pub request_id: MsgId,
    /// Its signed time.
    pub ts: UnixMillis,
    /// The session that waits for the answer.
    pub reply_session: SessionId,
}

/// An answer about pairing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PairingReply {
    /// The request stands, and waits to be sent.
    Requested {
        /// Position of its outbox entry.
        seq: Seq,
        /// Whether it existed before.
        again: bool,
    },
    /// Something became of a stranger's request.
    Knock(Knock),
    /// The key is admitted and the confirmation waits to be sent.
    Accepted {
        /// The petname that it has.
        petname: String,
        /// Whether it was admitted before, under this name.
        known: bool,
        /// Position of the confirmation's outbox entry; `None`: this request was accepted before.
        seq: Option<Seq>,
    },
    /// An admitted key's request is answered.
    Answered {
        /// Position of the answer's outbox entry; `None`: it was answered before, or another one
        /// of this key a moment ago.
        seq: Option<Seq>,
    },
    /// Something became of an acceptance.
    Acceptance(Acceptance),
    /// A conflict is settled, the key admitted.
    Resolved {
        /// The petname that it has.
        petname: String,
    },
    /// What waited for too long ended.
    Ended {
        /// Strangers' requests.
        inbound: usize,
        /// Requests of ours.
        outbound: usize,
    },
    /// The wish is fulfilled.
    Changed {
        /// Whether anything changed.
        changed: bool,
    },
}

/// Why a wish about pairing is refused. Nothing was written. Refusals that concern names, the list
/// of peers and the outbox are [`AgentRefusal`](super::super::AgentRefusal)'s own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PairingRefusal {
    /// A request keeps its id: sign with this one.
    #[error("the request to {key} keeps its id {request_id}")]
    KeepsId {
        /// Whom we ask.
        key: PublicKey,
        /// The id.
        request_id: MsgId,
    },
    /// An identity does not ask itself.
    #[error("this identity's own sessions need no pairing")]
    OwnKey,
    /// The operator blocked the key.
    #[error("key {key} is blocked")]
    Blocked {
        /// The key.
        key: PublicKey,
    },
    /// What was agreed to before is gone, and nobody was asked again.
    #[error("what was agreed with {key} has changed meanwhile; ask again")]
    NotAgreed {
        /// Whom we ask.
        key: PublicKey,
    },
    /// Too many requests of ours wait.
    #[error("{waiting} requests wait already, at most {MAX_PAIR_OUTBOUND} are possible")]
    TooManyRequests {
        /// How many.
        waiting: usize,
    },
    /// Another request of ours would give its key the same name.
    #[error("petname {name:?} is what the request to {key} asked for")]
    NameRequested {
        /// The name.
        name: String,
        /// Whom that request went to.
        key: PublicKey,
    },
    /// No request of this key waits.
    #[error("no pairing request of {key} waits")]
    NotPending {
        /// The key.
        key: PublicKey,
    },
    /// The request is another one than the operator saw.
    #[error("the pairing request of {key} has changed meanwhile, it is {request_id} now")]
    RequestChanged {
        /// Who asked.
        key: PublicKey,
        /// Id of the one that waits.
        request_id: MsgId,
    },
    /// The claimed name cannot be a petname, and none was given.
    #[error("the claimed name of {key} cannot be its petname; choose one")]
    NameNeeded {
        /// Who asked.
        key: PublicKey,
    },
    /// The key is not admitted (any more).
    #[error("key {key} is not admitted")]
    NotAdmitted {
        /// The key.
        key: PublicKey,
    },
    /// The key is admitted: it can be revoked, not blocked.
    #[error("key {key} is admitted as {petname:?}; remove that peer first")]
    Admitted {
        /// The key.
        key: PublicKey,
        /// Its petname.
        petname: String,
    },
    /// Nothing about this key waits to be decided.
    #[error("there is no pairing conflict about {key}")]
    NoConflict {
        /// The key.
        key: PublicKey,
    },
    /// Too many keys are blocked.
    #[error("at most {MAX_BLOCKED_KEYS} keys can be blocked")]
    TooManyBlocked,
}
