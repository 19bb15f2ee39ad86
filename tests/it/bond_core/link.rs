//! Two sessions and a relay in memory that can be told to misbehave.

use interlink::crypto::kdf::CodeKey;
use interlink::domain::machine::bond::{
    Action, Carries, Delivery, Failure, Happening, Input, OutgoingFile, Phase, Policy, Polled,
    Refusal, Request, Role, Row, Session, StepError,
};
use interlink::testkit::SeededEntropy;
use interlink::types::secret::Secret;
use interlink::types::time::UnixMillis;
use interlink::wire::bond::code::{Derived, PeerId, RoutingId};
use serde_json::{Value, json};

pub(super) const START: UnixMillis = UnixMillis(1_760_000_000_000);
pub(super) const HOST: usize = 0;
pub(super) const GUEST: usize = 1;

/// What the relay does to one message of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    None,
    /// Takes it, numbers it, loses it.
    Lose,
    /// Keeps it twice.
    Double,
    /// Flips a digit of the ciphertext.
    Tamper,
    /// Keeps it, and hands it back to its sender as the peer's.
    Reflect,
    /// Keeps it behind the next message.
    Late,
    /// Refuses it.
    Refuse,
    /// Keeps it, and the answer is lost.
    Silent,
}

#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) from: String,
    pub(super) seq: u64,
    pub(super) payload: Value,
}

/// The relay.
#[derive(Default)]
pub(super) struct Link {
    pub(super) kept: Vec<Kept>,
    pub(super) next: u64,
    pub(super) oldest: u64,
    pub(super) gone: bool,
    members: [Option<PeerId>; 2],
    host_key: String,
    late: Option<(String, Value)>,
}

impl Link {
    pub(super) fn push(&mut self, from: &str, payload: Value) {
        self.next += 1;
        self.kept.push(Kept {
            from: from.into(),
            seq: self.next,
            payload,
        });
    }

    fn post(&mut self, side: usize, payload: &str, fault: Fault) -> Result<(), Failure> {
        let Some(me) = self.members[side] else {
            return Err(Failure::NotAMember);
        };
        let me = me.to_string();
        let mut payload: Value = serde_json::from_str(payload).unwrap();
        match fault {
            Fault::Refuse => {
                return Err(Failure::Limited {
                    retry_after_ms: 2_000,
                });
            }
            Fault::Late => {
                self.flush();
                self.late = Some((me, payload));
                return Ok(());
            }
            Fault::Lose => self.next += 1,
            Fault::Tamper => {
                let digits = payload["encrypted"].as_str().unwrap();
                let first = if digits.starts_with('0') { "1" } else { "0" };
                payload["encrypted"] = format!("{first}{}", &digits[1..]).into();
                self.push(&me, payload);
            }
            Fault::Double => {
                self.push(&me, payload.clone());
                self.push(&me, payload);
            }
            Fault::Reflect => {
                self.push(&me, payload.clone());
                let other = self.members[1 - side].map_or("ff".repeat(32), |id| id.to_string());
                self.push(&other, payload);
            }
            Fault::None | Fault::Silent => self.push(&me, payload),
        }
        self.flush();
        if fault == Fault::Silent {
            return Err(Failure::Unreachable);
        }
        Ok(())
    }

    /// What was held back comes now.
    pub(super) fn flush(&mut self) {
        if let Some((from, payload)) = self.late.take() {
            self.push(&from, payload);
        }
    }

    fn poll(&self, side: usize, since: u64) -> Polled {
        let me = self.members[side].map(|id| id.to_string());
        let messages = self
            .kept
            .iter()
            .filter(|kept| kept.seq > since && kept.seq >= self.oldest)
            .filter(|kept| Some(&kept.from) != me.as_ref())
            .map(|kept| Delivery {
                from: kept.from.clone(),
                seq: kept.seq,
                payload: kept.payload.clone(),
            })
            .collect();
        Polled {
            messages,
            oldest_seq: Some(self.oldest.max(1)),
            disconnected: self.gone,
        }
    }
}

pub(super) fn name_rule(name: &str) -> Result<(), Refusal> {
    if name.ends_with(".exe") {
        return Err(Refusal::Type);
    }
    if name.contains("credentials") {
        return Err(Refusal::BlockedName);
    }
    Ok(())
}

pub(super) fn policy() -> Policy {
    Policy {
        max_file_bytes: 1_000,
        name_rule,
    }
}

pub(super) fn derived(code: u8) -> Derived {
    Derived {
        routing: RoutingId::from_bytes([7; 32]),
        code_key: CodeKey::new(Secret::new([code; 32])),
    }
}

/// Two sessions, their drivers and the relay between them.
pub(super) struct Pair {
    pub(super) sides: [Session; 2],
    pub(super) told: [Vec<Happening>; 2],
    pub(super) rows: [Vec<Row>; 2],
    pub(super) goodbyes: [usize; 2],
    /// Every payload that left, by side.
    pub(super) left: [Vec<(Carries, Value)>; 2],
    pub(super) link: Link,
    pub(super) now: UnixMillis,
    /// The guest's clock minus the host's.
    pub(super) skew: u64,
    pub(super) faults: Vec<Fault>,
    pub(super) entropy: SeededEntropy,
    opened: [Vec<Action>; 2],
}

impl Pair {
    /// Both are open, nothing has been said to the relay.
    pub(super) fn new(seed: u64, codes: [u8; 2]) -> Pair {
        let entropy = SeededEntropy::new(seed);
        let open = |role, code| Session::open(role, derived(code), policy(), START, &entropy);
        let (host, make) = open(Role::Host, codes[HOST]).unwrap();
        let (guest, join) = open(Role::Guest, codes[GUEST]).unwrap();
        Pair {
            sides: [host, guest],
            told: Default::default(),
            rows: Default::default(),
            goodbyes: [0; 2],
            left: Default::default(),
            link: Link::default(),
            now: START,
            skew: 0,
            faults: Vec::new(),
            entropy,
            opened: [make, join],
        }
    }

    /// Both have confirmed each other over an honest relay.
    pub(super) fn confirmed(seed: u64) -> Pair {
        let mut pair = Pair::new(seed, [9, 9]);
        pair.meet();
        pair.round();
        pair.round();
        assert_eq!(pair.phases(), [Phase::Confirmed; 2]);
        pair
    }

    pub(super) fn phases(&self) -> [Phase; 2] {
        [self.sides[HOST].phase(), self.sides[GUEST].phase()]
    }

    /// The host creates, the guest joins.
    pub(super) fn meet(&mut self) {
        for side in [HOST, GUEST] {
            let actions = std::mem::take(&mut self.opened[side]);
            self.run(side, actions);
        }
    }

    pub(super) fn time(&self, side: usize) -> UnixMillis {
        self.now.plus(if side == GUEST { self.skew } else { 0 })
    }

    pub(super) fn give(&mut self, side: usize, input: Input) -> Result<(), StepError> {
        let at = self.time(side);
        let actions = self.sides[side].step(at, input, &self.entropy)?;
        self.run(side, actions);
        Ok(())
    }

    pub(super) fn say(&mut self, side: usize, text: &str) -> Result<(), StepError> {
        self.give(side, Input::Say(text.into()))
    }

    pub(super) fn send(&mut self, side: usize, name: &str, content: &str) -> Result<(), StepError> {
        let file = OutgoingFile {
            name: name.into(),
            content: content.into(),
            note: "a note".into(),
        };
        self.give(side, Input::SendFile(file))
    }

    /// Five seconds pass, then both poll.
    pub(super) fn round(&mut self) {
        self.now = self.now.plus(5_000);
        for side in [HOST, GUEST] {
            self.give(side, Input::Tick).unwrap();
        }
    }

    /// Carries out what a session wants, answers included.
    pub(super) fn run(&mut self, side: usize, actions: Vec<Action>) {
        for action in actions {
            let answer = match action {
                Action::Create { key, peer, .. } => {
                    self.link.members[HOST] = Some(peer);
                    self.link.host_key = key.to_string();
                    Input::Created
                }
                Action::Join { key, peer, .. } => {
                    self.link.members[GUEST] = Some(peer);
                    let joined = json!({
                        "type": "peer_joined", "peerId": peer.to_string(), "publicKey": key.to_string()
                    });
                    self.link.push("system", joined);
                    let host_key = self.link.host_key.clone();
                    Input::Joined { host_key }
                }
                Action::Post {
                    ticket,
                    kind,
                    payload,
                } => {
                    if kind != Carries::Confirmation {
                        assert_eq!(self.sides[side].phase(), Phase::Confirmed);
                    }
                    let value = serde_json::from_str(&payload).unwrap();
                    self.left[side].push((kind, value));
                    let fault = self.faults.pop().unwrap_or(Fault::None);
                    match self.link.post(side, &payload, fault) {
                        Ok(()) => Input::Posted { ticket },
                        Err(failure) => Input::Failed {
                            request: Request::Post(ticket),
                            failure,
                        },
                    }
                }
                Action::Poll { since } => Input::Polled(self.link.poll(side, since)),
                Action::Goodbye => {
                    self.goodbyes[side] += 1;
                    if let Some(me) = self.link.members[side].take()
                        && !self.link.gone
                    {
                        let left = json!({ "type": "disconnect", "peerId": me.to_string() });
                        self.link.push("system", left);
                    }
                    continue;
                }
                Action::Tell(happening) => {
                    self.told[side].push(happening);
                    continue;
                }
                Action::Record(row) => {
                    self.rows[side].push(row);
                    continue;
                }
                other => panic!("{other:?}"),
            };
            self.give(side, answer).unwrap();
        }
    }

    pub(super) fn chats(&self, side: usize) -> Vec<String> {
        self.told[side]
            .iter()
            .filter_map(|told| match told {
                Happening::Chat { text, .. } => Some(text.clone()),
                _ => None,
            })
            .collect()
    }
}
