//! Encoding on the hot path: frames and signed bytes.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use interlink::codec::frame::{self, Frame};
use interlink::crypto::sign::SigningIdentity;
use interlink::types::id::MsgId;
use interlink::types::secret::Secret;
use interlink::types::seq::Seq;
use interlink::types::time::UnixMillis;
use interlink::wire::envelope::{Draft, Message};

/// Every input is derived from this.
const SEED: u8 = 0x11;

fn frames(c: &mut Criterion) {
    for payload in [32usize, 128, 1024] {
        let bytes = vec![SEED; payload];
        let frame = Frame {
            kind: 1,
            version: 1,
            seq: Seq(7),
            recorded_at: UnixMillis(1_700_000_000_000),
            payload: &bytes,
        };
        let mut encoded = Vec::new();
        frame::encode(&frame, &mut encoded).expect("within the limit");
        let mut group = c.benchmark_group("frame");
        group.throughput(Throughput::Bytes(encoded.len() as u64));
        group.bench_function(
            BenchmarkId::new("encode", format!("payload={payload}")),
            |b| {
                let mut out = Vec::with_capacity(encoded.len());
                b.iter(|| {
                    out.clear();
                    frame::encode(black_box(&frame), &mut out).expect("within the limit");
                });
            },
        );
        group.bench_function(
            BenchmarkId::new("decode", format!("payload={payload}")),
            |b| {
                b.iter(|| frame::parse_at(Seq(7), black_box(&encoded)).expect("whole"));
            },
        );
        group.finish();
    }
}

fn signed(c: &mut Criterion) {
    let identity = SigningIdentity::from_seed(&Secret::new([SEED; 32]));
    for text in [32usize, 512, 16 * 1024] {
        let id = MsgId::parse("00112233445566778899aabbccddeeff").expect("an id");
        let at = UnixMillis(1_700_000_000_000);
        let draft = Draft::message(identity.public(), "x".repeat(text), at, id);
        let message = Message::sign(&identity, draft);
        let mut group = c.benchmark_group("message");
        group.throughput(Throughput::Bytes(text as u64));
        group.bench_function(BenchmarkId::new("canonical", format!("text={text}")), |b| {
            b.iter(|| black_box(&message).canonical_bytes());
        });
        group.bench_function(BenchmarkId::new("verify", format!("text={text}")), |b| {
            b.iter(|| black_box(&message).verify().expect("valid"));
        });
        group.finish();
    }
}

criterion_group!(benches, frames, signed);
criterion_main!(benches);
