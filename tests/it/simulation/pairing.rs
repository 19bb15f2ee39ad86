//! Strangers who pair: what operators do, and what their channel servers make of what arrives.

use std::collections::BTreeSet;

use interlink::crypto::hash::sha256;
use interlink::domain::decide::agent::{
    AcceptPair, Acceptance, AgentRefusal, AgentReply, AnswerKnock, ControlMail, Knock,
    PairingCommand, PairingRefusal, PairingReply, RequestPair, TakeAcceptance, TakeKnock,
};
use interlink::domain::gate::Windows;
use interlink::domain::query::agent as query;
use interlink::event::agent::{AgentEvent, Origin};
use interlink::types::id::{MsgId, PublicKey, SessionId};
use interlink::types::route::Route;
use interlink::types::time::UnixMillis;
use interlink::wire::envelope::{Draft, Message, MessageKind};
use interlink::wire::pair::PairRequest;

use super::world::World;

/// What operators decided.
#[derive(Default)]
pub struct Wishes {
    /// (node, key): its operator asked for this key, or accepted it.
    pub wanted: BTreeSet<(usize, PublicKey)>,
    /// (asker, asked): the asked one's operator said yes.
    pub accepted: BTreeSet<(usize, usize)>,
    /// (asker, asked): called off, or turned down, at some time.
    pub spoiled: BTreeSet<(usize, usize)>,
}

impl World {
    /// An operator does something about pairing.
    pub fn operate(&mut self, at: usize) {
        match self.rng.below(10) {
            0..5 => {
                let other = self.any_node();
                if other != at {
                    self.request(at, other);
                }
            }
            5..9 => self.answer_somebody(at),
            _ => self.call_off(at),
        }
    }

    /// Every request that waits is accepted.
    pub fn accept_everybody(&mut self) {
        for at in 0..self.nodes.len() {
            for inbound in query::inbound(&self.nodes[at].store.tables).unwrap() {
                self.accept(at, inbound.key, inbound.row.request_id);
            }
        }
    }

    fn node_of(&self, key: &PublicKey) -> usize {
        self.nodes.iter().position(|n| n.key == *key).unwrap()
    }

    fn control(
        &mut self,
        at: usize,
        to: PublicKey,
        draft: (MessageKind, MsgId, Option<MsgId>),
    ) -> ControlMail {
        let (kind, msg_id, in_reply_to) = draft;
        let ts = self.clock(at);
        let node = &self.nodes[at];
        let draft = Draft {
            to,
            text: format!("node {at}"),
            ts,
            msg_id: msg_id.clone(),
            kind,
            task_id: None,
            status: None,
            in_reply_to,
            reply_to: Some(Route::new(node.key, node.session.clone())),
        };
        let body = serde_json::to_vec(&Message::sign(&node.identity, draft)).unwrap();
        ControlMail {
            msg_id,
            ts,
            sha256: sha256(&body),
            body: body.into(),
            relays: self.urls(),
        }
    }

    fn request(&mut self, at: usize, other: usize) {
        let key = self.nodes[other].key;
        let known = query::outbound_of(&self.nodes[at].store.tables, &key).unwrap();
        let id = known.map_or_else(|| self.fresh_id(), |o| o.row.request_id);
        let wish = RequestPair {
            lease: self.nodes[at].lease.clone(),
            own: self.nodes[at].key,
            key,
            name: format!("n{other}"),
            to_session: self.nodes[other].session.clone(),
            agreed: true,
            origin: Origin::Human,
            mail: self.control(at, key, (MessageKind::PairRequest, id, None)),
            now: self.clock(at),
        };
        match self.node_submit(at, &PairingCommand::Request(Box::new(wish)).into()) {
            Ok(_) => {
                self.wishes.wanted.insert((at, key));
                self.wishes.spoiled.remove(&(at, other));
            }
            Err(AgentRefusal::Pairing(PairingRefusal::NameRequested { .. })) => {}
            Err(e) => panic!("{e}"),
        }
    }

    fn answer_somebody(&mut self, at: usize) {
        let waiting = query::inbound(&self.nodes[at].store.tables).unwrap();
        if waiting.is_empty() {
            return;
        }
        let inbound = &waiting[self.rng.index(waiting.len())];
        let (key, id) = (inbound.key, inbound.row.request_id.clone());
        if self.rng.chance(80) {
            return self.accept(at, key, id);
        }
        let wish = PairingCommand::Reject {
            lease: None,
            key,
            request_id: Some(id),
            origin: Origin::Human,
            now: self.clock(at),
        };
        self.node_submit(at, &wish.into()).unwrap();
        let asker = self.node_of(&key);
        self.wishes.spoiled.insert((asker, at));
    }

    fn accept(&mut self, at: usize, key: PublicKey, request_id: MsgId) {
        let asker = self.node_of(&key);
        let id = self.fresh_id();
        let draft = (MessageKind::PairAccept, id, Some(request_id.clone()));
        let wish = AcceptPair {
            lease: None,
            key,
            request_id,
            petname: Some(format!("n{asker}")),
            origin: Origin::Human,
            mail: self.control(at, key, draft),
            now: self.clock(at),
        };
        self.wishes.wanted.insert((at, key));
        self.node_submit(at, &PairingCommand::Accept(Box::new(wish)).into())
            .unwrap();
        self.wishes.accepted.insert((asker, at));
    }

    fn call_off(&mut self, at: usize) {
        let mine = query::outbound(&self.nodes[at].store.tables).unwrap();
        if mine.is_empty() {
            return;
        }
        let key = mine[self.rng.index(mine.len())].key;
        let wish = PairingCommand::Cancel {
            lease: None,
            key,
            origin: Origin::Human,
            now: self.clock(at),
        };
        self.node_submit(at, &wish.into()).unwrap();
        let other = self.node_of(&key);
        self.wishes.spoiled.insert((at, other));
    }

    /// Something between the two was dropped for a clock that was wrong: a pairing under way may need
    /// its operators once more.
    pub fn spoil(&mut self, at: usize, other: &PublicKey) {
        let other = self.node_of(other);
        self.wishes.spoiled.extend([(at, other), (other, at)]);
    }

    /// A request arrived.
    pub fn knocked(&mut self, at: usize, message: &Message) {
        let knock = PairRequest::from_message(message).unwrap();
        let reply_session = knock.reply_to.session.unwrap();
        let wish = TakeKnock {
            lease: self.nodes[at].lease.clone(),
            own: self.nodes[at].key,
            from: message.from,
            request_id: knock.request_id.clone(),
            ts: message.ts,
            name: knock.name,
            reply_session: reply_session.clone(),
            windows: Windows::default(),
            now: self.clock(at),
        };
        let command = PairingCommand::TakeKnock(Box::new(wish));
        let answered = match self.node_submit(at, &command.into()).unwrap() {
            AgentReply::Pairing(PairingReply::Knock(Knock::AlreadyPeer { answered, .. })) => {
                answered
            }
            AgentReply::Pairing(PairingReply::Knock(Knock::Future { .. })) => {
                self.spoil(at, &message.from);
                true
            }
            _ => true,
        };
        if !answered {
            self.answer(
                at,
                message.from,
                knock.request_id,
                message.ts,
                reply_session,
            );
        }
    }

    fn answer(
        &mut self,
        at: usize,
        key: PublicKey,
        request_id: MsgId,
        knock_ts: UnixMillis,
        to_session: SessionId,
    ) {
        let id = self.fresh_id();
        let draft = (MessageKind::PairAccept, id, Some(request_id.clone()));
        let wish = AnswerKnock {
            lease: self.nodes[at].lease.clone(),
            key,
            request_id,
            knock_ts,
            to_session,
            mail: self.control(at, key, draft),
            now: self.clock(at),
        };
        self.node_submit(at, &PairingCommand::Answer(Box::new(wish)).into())
            .unwrap();
    }

    /// An acceptance arrived.
    pub fn accepted(&mut self, at: usize, message: &Message) {
        let wish = TakeAcceptance {
            lease: self.nodes[at].lease.clone(),
            from: message.from,
            ts: message.ts,
            in_reply_to: message.in_reply_to.clone(),
            windows: Windows::default(),
            now: self.clock(at),
        };
        let command = PairingCommand::TakeAcceptance(Box::new(wish));
        let reply = self.node_submit(at, &command.into()).unwrap();
        match reply {
            AgentReply::Pairing(PairingReply::Acceptance(Acceptance::Paired {
                knock: Some(knock),
                ..
            })) => self.answer(
                at,
                message.from,
                knock.request_id,
                knock.ts,
                knock.reply_session,
            ),
            AgentReply::Pairing(PairingReply::Acceptance(Acceptance::Future { .. })) => {
                self.spoil(at, &message.from);
            }
            _ => {}
        }
    }

    /// Trust changed by an operator's wish only, and no name was given twice.
    pub fn check_trust(&self, seed: u64) {
        for (at, node) in self.nodes.iter().enumerate() {
            for record in &node.store.log {
                if let AgentEvent::PeerAdded(e) = &record.event {
                    assert!(
                        self.wishes.wanted.contains(&(at, e.key)),
                        "seed {seed}: {at} admitted {} unasked",
                        e.petname
                    );
                    let other = self.node_of(&e.key);
                    assert_eq!(e.petname, format!("n{other}"), "seed {seed}");
                }
            }
        }
    }

    /// Whether a node lists another one.
    pub fn lists(&self, at: usize, other: usize) -> bool {
        let key = &self.nodes[other].key;
        query::peer_by_key(&self.nodes[at].store.tables, key)
            .unwrap()
            .is_some()
    }
}
