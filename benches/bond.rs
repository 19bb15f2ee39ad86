//! Sealed sessions: what a handshake costs in either mode, and how fast bytes go through.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use interlink::crypto::aead::{self, SealKey};
use interlink::crypto::hash::sha256;
use interlink::domain::machine::bond::{
    Action, Delivery, Happening, Input, LocalFile, Machine, OutgoingFile, OwnAction, OwnInput,
    OwnSession, Policy, Polled, Role, Session,
};
use interlink::types::entropy::{Entropy, EntropyError};
use interlink::types::secret::Secret;
use interlink::types::time::UnixMillis;
use interlink::wire::bond::code::SessionCode;
use interlink::wire::bond::own_code::OwnCode;

const T0: UnixMillis = UnixMillis(1_700_000_000_000);

/// Different bytes every time, the same in every run.
struct Steps(AtomicU64);

impl Entropy for Steps {
    fn fill(&self, buf: &mut [u8]) -> Result<(), EntropyError> {
        for byte in buf {
            let n = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
            *byte = (n >> 56) as u8;
        }
        Ok(())
    }
}

/// Two machines and the least of a relay.
struct Pair {
    sides: [Box<dyn Machine>; 2],
    todo: [Vec<Action>; 2],
    inbox: [Vec<Delivery>; 2],
    seq: u64,
    keys: [String; 2],
    confirmed: usize,
    file: Vec<u8>,
    whole: bool,
    entropy: Steps,
}

const POLICY: Policy = Policy {
    max_file_bytes: 64 << 20,
    name_rule: |_| Ok(()),
};

impl Pair {
    fn legacy() -> Pair {
        let entropy = Steps(AtomicU64::new(1));
        let code: SessionCode = "AbCd-1234-XyZw".parse().expect("a code");
        let open =
            |role| Session::open(role, code.derive(), POLICY, T0, &entropy).expect("randomness");
        let (host, to_host) = open(Role::Host);
        let (guest, to_guest) = open(Role::Guest);
        Pair::new([Box::new(host), Box::new(guest)], [to_host, to_guest])
    }

    fn own() -> Pair {
        let entropy = Steps(AtomicU64::new(1));
        let code: OwnCode = "4821-9037-acorn-almond-alpine".parse().expect("a code");
        let open = |role| OwnSession::open(role, &code, POLICY, T0, &entropy).expect("randomness");
        let (host, to_host) = open(Role::Host);
        let (guest, to_guest) = open(Role::Guest);
        Pair::new([Box::new(host), Box::new(guest)], [to_host, to_guest])
    }

    fn new(sides: [Box<dyn Machine>; 2], todo: [Vec<Action>; 2]) -> Pair {
        Pair {
            sides,
            todo,
            inbox: [Vec::new(), Vec::new()],
            seq: 0,
            keys: [String::new(), String::new()],
            confirmed: 0,
            file: Vec::new(),
            whole: false,
            entropy: Steps(AtomicU64::new(99)),
        }
    }

    fn feed(&mut self, side: usize, input: Input) {
        let actions = self.sides[side].step(T0, input, &self.entropy);
        self.todo[side].extend(actions.expect("an honest session"));
        self.work(side);
    }

    fn work(&mut self, side: usize) {
        while !self.todo[side].is_empty() {
            let actions = std::mem::take(&mut self.todo[side]);
            for action in actions {
                if let Some(input) = self.execute(side, action) {
                    let more = self.sides[side].step(T0, input, &self.entropy);
                    self.todo[side].extend(more.expect("an honest session"));
                }
            }
        }
    }

    fn execute(&mut self, side: usize, action: Action) -> Option<Input> {
        match action {
            Action::Create { key, .. } => {
                self.keys[side] = key.to_string();
                Some(Input::Created)
            }
            Action::Join { key, peer, .. } => {
                let joined = serde_json::json!({
                    "type": "peer_joined", "peerId": peer.to_string(), "publicKey": key.to_string(),
                });
                self.put(0, "system".to_owned(), joined);
                let host_key = self.keys[0].clone();
                Some(Input::Joined { host_key })
            }
            Action::Post {
                ticket, payload, ..
            } => {
                let payload = serde_json::from_str(&payload).expect("JSON");
                let from = self.sides[side].me().to_string();
                self.put(1 - side, from, payload);
                Some(Input::Posted { ticket })
            }
            Action::Poll { .. } => Some(Input::Polled(Polled {
                messages: std::mem::take(&mut self.inbox[side]),
                ..Polled::default()
            })),
            Action::Tell(Happening::Confirmed { .. }) => {
                self.confirmed += 1;
                None
            }
            Action::Tell(Happening::FileOffered { id, .. }) => Some(Input::Accepted { id }),
            Action::Own(OwnAction::ReadChunk { id, offset, len }) => {
                let from = usize::try_from(offset).expect("small");
                Some(Input::Own(OwnInput::ChunkRead {
                    id,
                    offset,
                    bytes: self.file[from..from + len].to_vec(),
                }))
            }
            Action::Own(OwnAction::FinishFile { id }) => {
                self.whole = true;
                Some(Input::Own(OwnInput::Stored { id }))
            }
            _ => None,
        }
    }

    fn put(&mut self, to: usize, from: String, payload: serde_json::Value) {
        self.seq += 1;
        self.inbox[to].push(Delivery {
            from,
            seq: self.seq,
            payload,
        });
    }

    fn meet(mut self) -> Pair {
        for side in [0, 1, 0, 1] {
            self.work(side);
            self.feed(side, Input::Tick);
        }
        assert_eq!(self.confirmed, 2, "an honest handshake");
        self
    }
}

fn handshake(c: &mut Criterion) {
    let mut group = c.benchmark_group("bond");
    group.sample_size(10);
    group.bench_function(BenchmarkId::new("handshake", "mode=legacy"), |b| {
        b.iter(|| black_box(Pair::legacy().meet().confirmed));
    });
    group.bench_function(BenchmarkId::new("handshake", "mode=own"), |b| {
        b.iter(|| black_box(Pair::own().meet().confirmed));
    });
    group.finish();
}

fn seal(c: &mut Criterion) {
    let key = SealKey::new(Secret::new([0x11; 32]));
    for size in [256usize, 4 << 10, 192 << 10] {
        let plain = vec![0x22; size];
        let sealed = aead::seal(&key, [7; 12], b"aad", &plain).expect("small");
        let mut group = c.benchmark_group("bond");
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(BenchmarkId::new("seal", format!("bytes={size}")), |b| {
            b.iter(|| aead::seal(&key, [7; 12], b"aad", black_box(&plain)).expect("small"));
        });
        group.bench_function(BenchmarkId::new("open", format!("bytes={size}")), |b| {
            b.iter(|| aead::open(&key, b"aad", black_box(&sealed)).expect("intact"));
        });
        group.finish();
    }
}

/// A file from one machine to the other, everything but disk and network.
fn transfer(c: &mut Criterion) {
    const LEGACY: usize = 256 << 10;
    const OWN: usize = 8 << 20;
    let mut group = c.benchmark_group("bond");
    group.sample_size(10);
    group.throughput(Throughput::Bytes(LEGACY as u64));
    group.bench_function(
        BenchmarkId::new("transfer", format!("mode=legacy,bytes={LEGACY}")),
        |b| {
            b.iter_batched(
                || Pair::legacy().meet(),
                |mut pair| {
                    let file = OutgoingFile {
                        name: "a.txt".to_owned(),
                        content: "x".repeat(LEGACY),
                        note: String::new(),
                    };
                    pair.feed(0, Input::SendFile(file));
                    pair.feed(1, Input::Tick);
                    assert!(pair.inbox[1].is_empty());
                },
                BatchSize::PerIteration,
            );
        },
    );
    group.throughput(Throughput::Bytes(OWN as u64));
    group.bench_function(
        BenchmarkId::new("transfer", format!("mode=own,bytes={OWN}")),
        |b| {
            b.iter_batched(
                || Pair::own().meet(),
                |mut pair| {
                    let file = vec![0x33; OWN];
                    let local = LocalFile {
                        name: "a.bin".to_owned(),
                        size: OWN as u64,
                        sha256: sha256(&file),
                        note: String::new(),
                    };
                    pair.file = file;
                    pair.feed(0, Input::Own(OwnInput::OfferFile(local)));
                    for turn in 0..100 {
                        pair.feed(1 - turn % 2, Input::Tick);
                        if pair.whole {
                            return;
                        }
                    }
                    unreachable!("the file arrives");
                },
                BatchSize::PerIteration,
            );
        },
    );
    group.finish();
}

criterion_group!(benches, handshake, seal, transfer);
criterion_main!(benches);
