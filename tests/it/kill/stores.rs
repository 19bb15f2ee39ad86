//! After a run: every store holds together, and the three logs tell one story.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use interlink::crypto::hash::sha256;
use interlink::domain::Domain;
use interlink::domain::decide::agent::Agent;
use interlink::domain::decide::bus::Bus;
use interlink::event::Recorded;
use interlink::event::agent::AgentEvent;
use interlink::event::bus::BusEvent;
use interlink::store::{Mode, Reader, Snapshot};
use serde_json::Value;

use super::history::{Event, Key, Msg, Recorder};
use crate::mcp_support::Home;
use crate::support::verified;

/// Where an identity keeps its store.
pub(crate) fn agent_store(home: &Home) -> PathBuf {
    let state = home.path().join("state/interlink/agent");
    state.join(home.key.to_string()).join("agent.redb")
}

/// Verifies a store and gives its records to `look`, with the bodies beside them.
fn records<D: Domain, R>(
    path: &Path,
    mode: Mode,
    look: impl FnOnce(&Snapshot, Vec<Recorded<D::Event>>) -> R,
) -> R {
    let reader = Reader::open(path, mode).unwrap();
    let snapshot = reader.snapshot().unwrap();
    let report = verified::<D>(&snapshot);
    println!("verify {}: {report:?}", path.display());
    let mut out = vec![];
    snapshot
        .frames(interlink::types::seq::Seq::ZERO, |seq, bytes| {
            out.push(Recorded::from_frame(seq, bytes)?);
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    look(&snapshot, out)
}

pub(crate) fn bus_records(path: &Path) -> Vec<Recorded<BusEvent>> {
    records::<Bus, _>(path, Mode::Exclusive, |_, records| records)
}

/// The messages that a bus dropped, with the names that its readers know them by.
pub(crate) fn drops(path: &Path, payloads: &BTreeMap<[u8; 32], Msg>) -> Vec<Event> {
    let mut names: BTreeMap<_, (Key, Msg)> = BTreeMap::new();
    let mut out = vec![];
    for record in bus_records(path) {
        match record.event {
            BusEvent::Enqueued(e) => {
                let key = format!("{}\0{:020}", e.to, record.seq.0);
                names.insert(record.seq, (key, payloads[&e.sha256]));
            }
            BusEvent::Dropped(e) => out.extend(e.seqs.iter().map(|seq| {
                let (key, msg) = names[seq].clone();
                Event::Dropped { key, msg }
            })),
            BusEvent::BodyLost(e) => panic!("a body was lost: {e:?}"),
            _ => {}
        }
    }
    out
}

#[derive(Default)]
struct Books {
    /// Message id -> SHA-256 of what the bus should have got.
    queued: BTreeMap<String, [u8; 32]>,
    /// The same of those that a relay took.
    accepted: BTreeSet<String>,
    /// Message id -> how often it was received.
    received: BTreeMap<String, u32>,
    acknowledged: BTreeSet<String>,
}

impl Books {
    fn read(&mut self, snapshot: &Snapshot, records: Vec<Recorded<AgentEvent>>) {
        let (mut outgoing, mut incoming) = (BTreeMap::new(), BTreeMap::new());
        for record in records {
            match record.event {
                AgentEvent::OutboxQueued(e) => {
                    let body = snapshot.body(record.seq).unwrap().expect("a sent text");
                    let payload: Value = serde_json::from_slice(&body).unwrap();
                    let id = e.msg_id.as_str().to_owned();
                    let sha256 = sha256(&serde_json::to_vec(&payload).unwrap());
                    assert!(self.queued.insert(id.clone(), sha256).is_none(), "{id}");
                    outgoing.insert(record.seq, id);
                }
                AgentEvent::OutboxAccepted(e) => {
                    self.accepted.insert(outgoing[&e.message].clone());
                }
                AgentEvent::OutboxRefused(e) => panic!("refused: {e:?}"),
                AgentEvent::Received(e) => {
                    let id = e.msg_id.as_str().to_owned();
                    *self.received.entry(id.clone()).or_default() += 1;
                    incoming.insert(record.seq, id);
                }
                AgentEvent::Acknowledged(e) => {
                    for seq in e.seqs {
                        let id = incoming[&seq].clone();
                        assert!(self.acknowledged.insert(id.clone()), "{id}: twice");
                    }
                }
                _ => {}
            }
        }
    }
}

/// Verifies the stores and compares them with each other and with what the clients saw.
pub(crate) fn agree(recorder: &Recorder, bus: &Path, homes: &[&Home]) {
    let mut books = Books::default();
    for home in homes {
        records::<Agent, _>(&agent_store(home), Mode::Shared, |snapshot, records| {
            books.read(snapshot, records);
        });
    }
    let records = bus_records(bus);
    let (mut posted, mut waiting) = (BTreeSet::new(), BTreeSet::new());
    for record in &records {
        match &record.event {
            BusEvent::Enqueued(e) => {
                posted.insert(e.sha256);
                waiting.insert(record.seq);
            }
            BusEvent::Acked(e) => e.seqs.iter().for_each(|seq| {
                assert!(waiting.remove(seq), "{seq}");
            }),
            BusEvent::Dropped(_) | BusEvent::BodyLost(_) => panic!("{record:?}"),
            _ => {}
        }
    }
    assert!(waiting.is_empty(), "the bus still holds {waiting:?}");
    for (id, sha256) in &books.queued {
        assert!(books.accepted.contains(id), "{id} was never taken");
        assert!(posted.contains(sha256), "{id} is not in the log of the bus");
        assert_eq!(books.received.get(id), Some(&1), "{id}");
    }
    let expected: BTreeSet<_> = books.queued.values().copied().collect();
    assert_eq!(posted, expected, "the bus took what nobody sent");
    assert_eq!(books.received.len(), books.queued.len());
    for event in recorder.events() {
        match event {
            Event::SendDone(msg, Some(id)) => {
                assert!(books.queued.contains_key(&id), "{msg:?} is in no log");
            }
            Event::AckDone { keys, .. } => {
                for id in keys {
                    assert!(books.acknowledged.contains(&id), "{id} is unread");
                }
            }
            _ => {}
        }
    }
    println!("the logs agree on {} messages", books.queued.len());
}
