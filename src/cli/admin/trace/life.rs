//! The life of one message, put together from what the stores say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::super::links::{number, text};
use super::order;
use super::walk::{Moment, Wanted};
use super::{Place, What, words};

/// Something that happened to a message.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(in super::super) struct Step {
    /// What happened.
    pub(in super::super) step: What,
    /// Where, by the name that `stores` gives; absent where only another store's word tells of it.
    pub(in super::super) place: Option<String>,
    /// Position of the record that says so, in that store's log.
    pub(in super::super) seq: Option<u64>,
    /// When, Unix milliseconds, by the clock of that place.
    pub(in super::super) at: u64,
    /// Milliseconds since the step before; negative where two clocks contradict each other.
    pub(in super::super) after_ms: Option<i64>,
    /// The relay that it is about.
    pub(in super::super) relay: Option<String>,
    /// More about it, in words.
    pub(in super::super) detail: Option<String>,
    /// Whether it follows from other facts instead of a record of its own.
    pub(in super::super) inferred: bool,
    /// Whether its record was compacted away and a row tells of it.
    pub(in super::super) from_row: bool,
    /// Index of the store; `usize::MAX` where there is none.
    #[serde(skip)]
    pub(super) store: usize,
    /// Position among the steps of its store.
    #[serde(skip)]
    pub(super) order: u64,
}

/// Where a message is now, or how its way ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in super::super) enum State {
    /// Its reader acknowledged it.
    Read,
    /// It stands in the mailbox, unread.
    Unread,
    /// A newer update of the same task made it not worth reading.
    Superseded,
    /// It came too late and is listed as expired.
    Late,
    /// It was taken in and is no mail for a reader: control mail, for example.
    Taken,
    /// What was exchanged with its sender or recipient was erased.
    Erased,
    /// The bus acknowledged that a reader has it; that reader's store is not among these.
    Fetched,
    /// It waits on a bus.
    Waiting,
    /// It left the bus unread, because the queue was full.
    Dropped,
    /// It left the bus unread, for its age.
    Expired,
    /// It left the bus unread, because its body was missing or damaged.
    BodyLost,
    /// It left the bus unread, because the operator took it out of its queue.
    Discarded,
    /// A relay took it; that relay's store is not among these.
    Accepted,
    /// Every relay refused it.
    Refused,
    /// The operator gave it up before a relay had it.
    GivenUp,
    /// It waits to be sent.
    Queued,
    /// Only hints of it are left.
    Unknown,
}

/// Milliseconds between steps; absent where one of them is not known, negative where clocks
/// contradict each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub(in super::super) struct Durations {
    /// From signing until a relay had taken it.
    pub(in super::super) signed_to_accepted: Option<i64>,
    /// From its arrival on a bus until it left that bus.
    pub(in super::super) on_bus: Option<i64>,
    /// From signing until it stood in the mailbox.
    pub(in super::super) signed_to_received: Option<i64>,
    /// From then until its reader acknowledged it.
    pub(in super::super) received_to_read: Option<i64>,
    /// From signing until its reader acknowledged it.
    pub(in super::super) signed_to_read: Option<i64>,
}

/// A message's whole life.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(in super::super) struct Life {
    /// Id of the message.
    pub(in super::super) msg_id: String,
    /// Key of its sender.
    pub(in super::super) from: Option<String>,
    /// The sender's session.
    pub(in super::super) from_session: Option<String>,
    /// Key of its recipient.
    pub(in super::super) to: Option<String>,
    /// The recipient's session.
    pub(in super::super) to_session: Option<String>,
    /// `message`, `pair_request` or `pair_accept`.
    pub(in super::super) kind: Option<String>,
    /// The task that it is about.
    pub(in super::super) task_id: Option<String>,
    /// State of that task that it tells of.
    pub(in super::super) status: Option<String>,
    /// The message that it answers.
    pub(in super::super) in_reply_to: Option<String>,
    /// Length in bytes.
    pub(in super::super) bytes: Option<u64>,
    /// The relays that shall get it.
    pub(in super::super) relays: Vec<String>,
    /// Where it is now, or how its way ended.
    pub(in super::super) state: State,
    /// The same in a sentence.
    pub(in super::super) verdict: String,
    /// In the order in which they happened, as far as that can be told.
    pub(in super::super) steps: Vec<Step>,
    /// Milliseconds between steps.
    pub(in super::super) durations_ms: Durations,
    /// Where clocks contradict each other.
    pub(in super::super) contradictions: Vec<String>,
    /// What is not known, and why.
    pub(in super::super) notes: Vec<String>,
}

impl Life {
    fn new(id: &str) -> Life {
        Life {
            msg_id: id.to_owned(),
            from: None,
            from_session: None,
            to: None,
            to_session: None,
            kind: None,
            task_id: None,
            status: None,
            in_reply_to: None,
            bytes: None,
            relays: vec![],
            state: State::Unknown,
            verdict: String::new(),
            steps: vec![],
            durations_ms: Durations::default(),
            contradictions: vec![],
            notes: vec![],
        }
    }

    /// The first step of a kind.
    pub(super) fn first(&self, what: What) -> Option<&Step> {
        self.steps.iter().find(|step| step.step == what)
    }

    pub(super) fn has(&self, what: What) -> bool {
        self.first(what).is_some()
    }
}

/// Gathers the lives of chosen messages.
pub(in super::super) struct Lives {
    /// The messages, and what is known so far.
    lives: BTreeMap<Arc<str>, Life>,
    /// Keys that sent under each id.
    senders: BTreeMap<Arc<str>, BTreeSet<String>>,
    /// Digests under which a bus has them.
    digests: BTreeMap<String, Arc<str>>,
    /// The stores that were read.
    pub(super) places: Vec<Place>,
}

/// The messages that are gathered.
pub(super) struct Chosen<'a>(pub(super) &'a Lives);

impl Wanted for Chosen<'_> {
    fn wants(&self, id: &str, _task: Option<&str>) -> bool {
        self.0.lives.contains_key(id)
    }

    fn by_digest(&self, sha256: &str) -> Option<Arc<str>> {
        self.0.digests.get(sha256).cloned()
    }
}

/// A moment that outlives the walk.
pub(super) struct Told {
    id: Arc<str>,
    step: Step,
    event: Value,
}

impl Told {
    pub(super) fn of(moment: &Moment<'_>, place: &Place, store: usize) -> Told {
        Told {
            id: Arc::clone(moment.id),
            step: Step {
                step: moment.what,
                place: Some(place.name.clone()),
                seq: moment.seq,
                at: moment.at,
                after_ms: None,
                relay: text(moment.event, "relay").map(str::to_owned),
                detail: words::detail(moment),
                inferred: false,
                from_row: moment.seq.is_none(),
                store,
                order: moment.order,
            },
            event: moment.event.clone(),
        }
    }

    /// The body that the step brought.
    pub(super) fn body(&self) -> Option<u64> {
        match self.step.step {
            What::Queued | What::Resigned | What::Requeued => self.step.seq,
            _ => None,
        }
    }
}

impl Lives {
    /// Nothing is known of these messages yet.
    pub(super) fn of(ids: impl IntoIterator<Item = Arc<str>>) -> Lives {
        Lives {
            lives: ids
                .into_iter()
                .map(|id| (Arc::clone(&id), Life::new(&id)))
                .collect(),
            senders: BTreeMap::new(),
            digests: BTreeMap::new(),
            places: vec![],
        }
    }

    pub(super) fn learn_digest(&mut self, told: &Told, digest: String) {
        self.digests.insert(digest, Arc::clone(&told.id));
    }

    /// Adds what one store said.
    pub(super) fn add(&mut self, told: Told) {
        let Some(life) = self.lives.get_mut(&told.id) else {
            return;
        };
        let (step, event) = (told.step, &told.event);
        let own = |name: &str| text(event, name).map(str::to_owned);
        match step.step {
            What::Queued => {
                life.from_session = own("session");
                life.to = own("to");
                life.to_session = own("to_session");
                life.relays = words::relays(event);
                about(life, event);
                life.bytes = number(event, "len");
                let from = self
                    .places
                    .get(step.store)
                    .and_then(|place| place.key.clone());
                life.from = from.or_else(|| life.from.take());
                // The sender's own record says it better than the reader's.
                life.steps
                    .retain(|step| step.step != What::Signed || step.store != usize::MAX);
                let signed = signed(&step, event);
                life.steps.extend(signed);
            }
            What::Requeued => {
                life.to_session = own("to_session").or_else(|| life.to_session.take());
            }
            What::Received | What::Late | What::UsedUp => {
                if let Some(from) = own("from") {
                    let known = self.senders.entry(Arc::clone(&told.id)).or_default();
                    known.insert(from.clone());
                    life.from.get_or_insert(from);
                }
                let to = self
                    .places
                    .get(step.store)
                    .and_then(|place| place.key.clone());
                life.to = life.to.take().or(to);
                life.to_session = life.to_session.take().or_else(|| own("session"));
                life.bytes = life.bytes.or_else(|| number(event, "len"));
                if step.step == What::Received {
                    about(life, event);
                }
                if let Some(reply_to) = text(event, "reply_to") {
                    let (_, session) = crate::types::route::split(reply_to);
                    let session = session.map(str::to_owned);
                    life.from_session = life.from_session.take().or(session);
                }
                if !life.has(What::Signed) {
                    let signed = signed(&step, event).map(|signed| Step {
                        place: None,
                        seq: None,
                        store: usize::MAX,
                        ..signed
                    });
                    life.steps.extend(signed);
                }
            }
            What::Enqueued => {
                if let (None, Some(queue)) = (&life.to, text(event, "to")) {
                    let (key, session) = crate::types::route::split(queue);
                    life.to = Some(key.to_owned());
                    life.to_session = session.map(str::to_owned);
                }
                life.bytes = life.bytes.or_else(|| number(event, "len"));
            }
            _ => {}
        }
        // What a record tells, a row need not.
        if !step.from_row {
            life.steps.retain(|other| {
                !(other.from_row
                    && other.store == step.store
                    && other.step == step.step
                    && other.relay == step.relay)
            });
        }
        life.steps.push(step);
    }

    /// Updates that stand in the mailbox of a store, unread: what superseded them is for its rows
    /// to say. Each with the step in which it was received.
    pub(super) fn unread_updates(&self, store: usize) -> BTreeMap<String, Step> {
        let lives = self.lives.values();
        let updates = lives.filter(|life| life.status.as_deref() == Some("update"));
        updates
            .filter(|life| !life.has(What::Read))
            .filter_map(|life| {
                let received = life.first(What::Received)?;
                (received.store == store).then(|| (life.msg_id.clone(), received.clone()))
            })
            .collect()
    }

    pub(super) fn supersede(&mut self, id: &str, step: Step) {
        if let Some(life) = self.lives.get_mut(id) {
            life.steps.push(step);
        }
    }

    /// What is known, in order of the first step.
    pub(in super::super) fn finish(self) -> Vec<Life> {
        let Lives {
            lives,
            senders,
            places,
            ..
        } = self;
        let mut lives: Vec<Life> = lives
            .into_iter()
            .filter(|(_, life)| !life.steps.is_empty())
            .map(|(id, mut life)| {
                let keys = senders.get(&id).map_or(0, BTreeSet::len);
                if keys > 1 {
                    let text = format!(
                        "{keys} keys have sent under this id, and their messages are told together"
                    );
                    life.notes.push(text);
                }
                order::finish(&mut life, &places);
                words::conclude(&mut life, &places);
                life
            })
            .collect();
        lives.sort_by_key(|life| life.steps.first().map(|step| step.at));
        lives
    }
}

/// What a message is about.
fn about(life: &mut Life, event: &Value) {
    for (into, name) in [
        (&mut life.kind, "kind"),
        (&mut life.task_id, "task_id"),
        (&mut life.status, "status"),
        (&mut life.in_reply_to, "in_reply_to"),
    ] {
        if let Some(found) = text(event, name) {
            *into = Some(found.to_owned());
        }
    }
}

/// The signing, which the first record of a message tells of.
fn signed(step: &Step, event: &Value) -> Option<Step> {
    Some(Step {
        step: What::Signed,
        at: number(event, "ts")?,
        relay: None,
        detail: None,
        // Before everything else of its store.
        order: 0,
        ..step.clone()
    })
}
