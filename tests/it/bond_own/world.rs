//! Two sessions, a relay between them that misbehaves on demand, two disks, one clock.

use std::collections::{BTreeMap, HashMap, VecDeque};

use interlink::crypto::hash::sha256;
use interlink::domain::machine::bond::{
    Action, Delivery, Failure, Happening, Input, LocalFile, OfferId, OwnAction, OwnHappening,
    OwnInput, OwnSession, Phase, Policy, Polled, Request, Role, Row,
};
use interlink::testkit::{Rng, SeededEntropy};
use interlink::types::entropy::Entropy;
use interlink::types::time::UnixMillis;
use interlink::wire::bond::code::PeerId;
use interlink::wire::bond::own_code::OwnCode;
use serde_json::{Value, json};

pub(crate) const HOST: usize = 0;
pub(crate) const GUEST: usize = 1;
pub(crate) const CODE: &str = "4821-9037-acorn-almond-alpine";
pub(crate) const T0: UnixMillis = UnixMillis(1_800_000_000_000);

/// What the relay does wrong, in percent of messages or requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) lose: u64,
    pub(crate) double: u64,
    pub(crate) tamper: u64,
    pub(crate) reflect: u64,
    pub(crate) late: u64,
    pub(crate) refuse: u64,
    pub(crate) silent: u64,
    /// Forgets the session.
    pub(crate) forget: u64,
}

#[derive(Default)]
struct Room {
    host_key: String,
    members: Vec<PeerId>,
    next: u64,
    queue: Vec<Delivery>,
    stamps: HashMap<PeerId, Vec<u64>>,
}

impl Room {
    fn put(&mut self, from: String, payload: Value) {
        self.next += 1;
        self.queue.push(Delivery {
            from,
            seq: self.next,
            payload,
        });
    }
}

/// A session and what it wants first.
pub(crate) type Opened = (OwnSession, Vec<Action>);

/// A way to change what the relay hands on: the receiver's side, and the message.
pub(crate) type Meddle = Box<dyn FnMut(usize, &mut Delivery)>;

#[derive(Default)]
pub(crate) struct Disk {
    /// Files of ours that a session may read.
    pub(crate) local: BTreeMap<OfferId, Vec<u8>>,
    queued: VecDeque<Vec<u8>>,
    pub(crate) temporary: BTreeMap<OfferId, Vec<u8>>,
    pub(crate) whole: BTreeMap<OfferId, Vec<u8>>,
    pub(crate) largest_chunk: usize,
}

pub(crate) struct World {
    pub(crate) now: UnixMillis,
    entropy: SeededEntropy,
    rng: Rng,
    pub(crate) sides: Vec<OwnSession>,
    todo: [VecDeque<Action>; 2],
    rooms: HashMap<String, Room>,
    held: Vec<(usize, Delivery)>,
    pub(crate) told: [Vec<Happening>; 2],
    pub(crate) rows: [Vec<Row>; 2],
    pub(crate) disk: [Disk; 2],
    pub(crate) faults: Faults,
    pub(crate) meddle: Option<Meddle>,
    /// Sends a minute; `None` is no limit.
    pub(crate) limit: Option<usize>,
    /// Whether files are accepted as they are offered.
    pub(crate) accept: bool,
    /// Everything that a relay saw.
    pub(crate) seen: Vec<String>,
    pub(crate) posts: [usize; 2],
    pub(crate) posts_before_proof: [Vec<String>; 2],
}

pub(crate) fn policy() -> Policy {
    Policy {
        max_file_bytes: 64 << 20,
        name_rule: |_| Ok(()),
    }
}

impl World {
    /// Both have opened with a code; the relay knows both.
    pub(crate) fn open(seed: u64, host: &str, guest: &str) -> World {
        let with = |code: &str| {
            let code: OwnCode = code.parse().expect("a code");
            move |role, world: &World| {
                OwnSession::open(role, &code, policy(), world.now, &world.entropy)
                    .expect("randomness")
            }
        };
        World::open_with(seed, with(host), with(guest))
    }

    /// Both have opened somehow.
    pub(crate) fn open_with(
        seed: u64,
        host: impl Fn(Role, &World) -> Opened,
        guest: impl Fn(Role, &World) -> Opened,
    ) -> World {
        let mut world = World {
            now: T0,
            entropy: SeededEntropy::new(seed),
            rng: Rng::new(seed ^ 0x5eed),
            sides: Vec::new(),
            todo: Default::default(),
            rooms: HashMap::new(),
            held: Vec::new(),
            told: Default::default(),
            rows: Default::default(),
            disk: Default::default(),
            faults: Faults::default(),
            meddle: None,
            limit: None,
            accept: true,
            seen: Vec::new(),
            posts: [0; 2],
            posts_before_proof: Default::default(),
        };
        for (side, role) in [Role::Host, Role::Guest].into_iter().enumerate() {
            let (session, actions) = match role {
                Role::Host => host(role, &world),
                Role::Guest => guest(role, &world),
            };
            world.sides.push(session);
            world.todo[side].extend(actions);
            world.work(side);
        }
        world
    }

    pub(crate) fn entropy(&self) -> &dyn Entropy {
        &self.entropy
    }

    /// Both have proven themselves over an honest relay.
    pub(crate) fn met(seed: u64) -> World {
        let mut world = World::open(seed, CODE, CODE);
        world.rounds(4, 1_000);
        assert_eq!(world.phases(), [Phase::Confirmed; 2]);
        world
    }

    pub(crate) fn phases(&self) -> [Phase; 2] {
        [self.sides[HOST].phase(), self.sides[GUEST].phase()]
    }

    /// Feeds an input and does what follows.
    pub(crate) fn feed(&mut self, side: usize, input: Input) -> Result<(), String> {
        let actions = self.sides[side]
            .step(self.now, input, &self.entropy)
            .map_err(|e| e.to_string())?;
        self.todo[side].extend(actions);
        self.work(side);
        Ok(())
    }

    pub(crate) fn say(&mut self, side: usize, text: &str) -> Result<(), String> {
        self.feed(side, Input::Say(text.to_owned()))
    }

    /// Offers a file that the edge holds open.
    pub(crate) fn offer(&mut self, side: usize, name: &str, bytes: Vec<u8>) {
        let file = LocalFile {
            name: name.to_owned(),
            size: bytes.len() as u64,
            sha256: sha256(&bytes),
            note: format!("about {name}"),
        };
        self.disk[side].queued.push_back(bytes);
        self.feed(side, Input::Own(OwnInput::OfferFile(file)))
            .expect("offered");
    }

    pub(crate) fn round(&mut self, ms: u64) {
        self.now = self.now.plus(ms);
        for side in [HOST, GUEST] {
            self.feed(side, Input::Tick).expect("a tick does not fail");
        }
    }

    pub(crate) fn rounds(&mut self, rounds: usize, ms: u64) {
        for _ in 0..rounds {
            self.round(ms);
        }
    }

    /// The relay forgets everything.
    pub(crate) fn forget(&mut self) {
        self.rooms.clear();
    }

    fn work(&mut self, side: usize) {
        while let Some(action) = self.todo[side].pop_front() {
            let Some(input) = self.execute(side, action) else {
                continue;
            };
            let more = self.sides[side]
                .step(self.now, input, &self.entropy)
                .expect("answers do not fail");
            self.todo[side].extend(more);
        }
    }

    fn execute(&mut self, side: usize, action: Action) -> Option<Input> {
        match action {
            Action::Create { routing, key, peer } => {
                let room = self.rooms.entry(routing.to_string()).or_default();
                if !room.members.is_empty() {
                    return Some(failed(Request::Create, Failure::Full));
                }
                room.host_key = key.to_string();
                room.members.push(peer);
                Some(Input::Created)
            }
            Action::Join { routing, key, peer } => {
                let Some(room) = self.rooms.get_mut(&routing.to_string()) else {
                    return Some(failed(Request::Join, Failure::NoSession));
                };
                if !room.members.contains(&peer) {
                    if room.members.len() > 1 {
                        return Some(failed(Request::Join, Failure::Full));
                    }
                    room.members.push(peer);
                    let joined = json!({
                        "type": "peer_joined",
                        "peerId": peer.to_string(),
                        "publicKey": key.to_string(),
                    });
                    room.put("system".to_owned(), joined);
                }
                let host_key = room.host_key.clone();
                Some(Input::Joined { host_key })
            }
            Action::Post {
                ticket, payload, ..
            } => Some(match self.post(side, &payload) {
                Ok(()) => Input::Posted { ticket },
                Err(failure) => failed(Request::Post(ticket), failure),
            }),
            Action::Poll { since } => Some(self.poll(side, since)),
            Action::Goodbye => {
                self.goodbye(side);
                None
            }
            Action::Tell(happening) => self.tell(side, happening),
            Action::Record(row) => {
                self.rows[side].push(row);
                None
            }
            Action::Own(action) => self.disk[side].execute(action).map(Input::Own),
            _ => unreachable!("no other action"),
        }
    }

    fn tell(&mut self, side: usize, happening: Happening) -> Option<Input> {
        let answer = match &happening {
            Happening::FileOffered { id, .. } if self.accept => {
                Some(Input::Accepted { id: id.clone() })
            }
            Happening::Own(OwnHappening::FileQueued { id, .. }) => {
                let bytes = self.disk[side].queued.pop_front().unwrap_or_default();
                self.disk[side].local.insert(id.clone(), bytes);
                None
            }
            _ => None,
        };
        self.told[side].push(happening);
        answer
    }

    fn post(&mut self, side: usize, payload: &str) -> Result<(), Failure> {
        self.seen.push(payload.to_owned());
        self.posts[side] += 1;
        if self.sides[side].phase() != Phase::Confirmed {
            self.posts_before_proof[side].push(payload.to_owned());
        }
        if self.rng.chance(self.faults.forget) {
            self.forget();
        }
        if self.rng.chance(self.faults.refuse) {
            return Err(Failure::Limited {
                retry_after_ms: 1_000,
            });
        }
        let (routing, me) = (self.sides[side].routing(), self.sides[side].me());
        let now = self.now.0;
        let Some(room) = self.rooms.get_mut(&routing.to_string()) else {
            return Err(Failure::NoSession);
        };
        if !room.members.contains(&me) {
            return Err(Failure::NotAMember);
        }
        if let Some(limit) = self.limit {
            let stamps = room.stamps.entry(me).or_default();
            stamps.retain(|at| at + 60_000 > now);
            if stamps.len() >= limit {
                return Err(Failure::Limited {
                    retry_after_ms: stamps[0] + 60_000 - now,
                });
            }
            stamps.push(now);
        }
        let mut payload: Value = serde_json::from_str(payload).expect("JSON");
        if self.rng.chance(self.faults.tamper) {
            tamper(&mut payload, &mut self.rng);
        }
        if !self.rng.chance(self.faults.lose) {
            room.put(me.to_string(), payload.clone());
        }
        if self.rng.chance(self.faults.double) {
            room.put(me.to_string(), payload);
        }
        if self.rng.chance(self.faults.silent) {
            return Err(Failure::Unreachable);
        }
        Ok(())
    }

    fn poll(&mut self, side: usize, since: u64) -> Input {
        let (routing, me) = (self.sides[side].routing(), self.sides[side].me());
        let member = self
            .rooms
            .get(&routing.to_string())
            .map(|room| room.members.contains(&me));
        if member == Some(false) {
            return failed(Request::Poll, Failure::NotAMember);
        }
        let Some(room) = self.rooms.get(&routing.to_string()) else {
            return Input::Polled(Polled {
                disconnected: true,
                ..Polled::default()
            });
        };
        let mut messages = Vec::new();
        for message in room.queue.iter().filter(|message| message.seq > since) {
            let own = message.from == me.to_string();
            if own && !self.rng.chance(self.faults.reflect) {
                continue;
            }
            let mut message = message.clone();
            if own && self.rng.chance(50) {
                // As if the peer had sent it.
                message.from = "ab".repeat(32);
            }
            if self.rng.chance(self.faults.late) {
                self.held.push((side, message));
                continue;
            }
            messages.push(message);
        }
        // A late one comes with its old number, after younger ones.
        let (due, held) = self
            .held
            .drain(..)
            .partition(|(to, _)| *to == side && self.rng.chance(40));
        self.held = held;
        let due: Vec<(usize, Delivery)> = due;
        messages.extend(due.into_iter().map(|(_, message)| message));
        if let Some(meddle) = &mut self.meddle {
            for message in &mut messages {
                meddle(side, message);
            }
        }
        self.rng.shuffle(&mut messages);
        Input::Polled(Polled {
            messages,
            oldest_seq: Some(1),
            disconnected: false,
        })
    }

    fn goodbye(&mut self, side: usize) {
        let (routing, me) = (self.sides[side].routing(), self.sides[side].me());
        if let Some(room) = self.rooms.get_mut(&routing.to_string()) {
            room.members.retain(|member| *member != me);
            let gone = json!({ "type": "disconnect", "peerId": me.to_string() });
            room.put("system".to_owned(), gone);
            if room.members.is_empty() {
                self.rooms.remove(&routing.to_string());
            }
        }
    }

    pub(crate) fn chats(&self, side: usize) -> Vec<&str> {
        self.told[side]
            .iter()
            .filter_map(|told| match told {
                Happening::Chat { text, .. } => Some(text.as_str()),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn own(&self, side: usize) -> Vec<&OwnHappening> {
        self.told[side]
            .iter()
            .filter_map(|told| match told {
                Happening::Own(own) => Some(own),
                _ => None,
            })
            .collect()
    }

    /// The id of the only file that was offered to this side.
    pub(crate) fn offered(&self, side: usize) -> OfferId {
        let mut offers = self.told[side].iter().filter_map(|told| match told {
            Happening::FileOffered { id, .. } => Some(id.clone()),
            _ => None,
        });
        offers.next_back().expect("an offer")
    }
}

impl Disk {
    fn execute(&mut self, action: OwnAction) -> Option<OwnInput> {
        match action {
            OwnAction::ReadChunk { id, offset, len } => {
                let from = usize::try_from(offset).expect("small");
                let found = self
                    .local
                    .get(&id)
                    .and_then(|all| all.get(from..from + len));
                Some(match found {
                    Some(bytes) => OwnInput::ChunkRead {
                        id,
                        offset,
                        bytes: bytes.to_vec(),
                    },
                    None => OwnInput::ReadFailed { id },
                })
            }
            OwnAction::StoreChunk { id, offset, bytes } => {
                self.largest_chunk = self.largest_chunk.max(bytes.len());
                let file = self.temporary.entry(id).or_default();
                assert_eq!(offset, file.len() as u64, "chunks come in order");
                file.extend(bytes);
                None
            }
            OwnAction::FinishFile { id } => {
                let bytes = self.temporary.remove(&id).unwrap_or_default();
                let before = self.whole.insert(id.clone(), bytes);
                assert!(before.is_none(), "a file is finished once");
                Some(OwnInput::Stored { id })
            }
            OwnAction::DiscardFile { id } => {
                self.temporary.remove(&id);
                None
            }
            OwnAction::ReleaseFile { id } => {
                self.local.remove(&id);
                None
            }
        }
    }
}

fn failed(request: Request, failure: Failure) -> Input {
    Input::Failed { request, failure }
}

/// Changes one character of one of the strings or numbers.
fn tamper(payload: &mut Value, rng: &mut Rng) {
    let text = payload.to_string();
    for _ in 0..50 {
        let mut bytes = text.clone().into_bytes();
        let at = rng.index(bytes.len());
        bytes[at] = match bytes[at] {
            b'0'..=b'8' | b'a'..=b'y' | b'A'..=b'Y' => bytes[at] + 1,
            _ => continue,
        };
        if let Ok(bent) = serde_json::from_slice(&bytes) {
            *payload = bent;
            return;
        }
    }
}
