//! `verify`: proves that stores are what their logs say.

use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::error::AdminError;
use super::locate::Target;
use super::print::{Printer, Style, bytes};
use super::reader::{Origin, Source, StoreReader};
use super::{DIFFERS, log, status};
use crate::wire::admin::{RecordRow, Verification};

/// Progress is told when a proof takes longer than this, and at this interval.
const PROGRESS: Duration = Duration::from_secs(1);

#[derive(Serialize, JsonSchema)]
pub(super) struct Answer {
    stores: Vec<StoreProof>,
}

#[derive(Serialize, JsonSchema)]
struct StoreProof {
    #[serde(flatten)]
    origin: Origin,
    #[serde(flatten)]
    proof: Verification,
    /// The record that the difference comes from, where it reads.
    cause: Option<RecordRow>,
}

pub(super) fn run(targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    let mut stores = vec![];
    let unread = super::each(targets, |reader| {
        let store = prove(reader)?;
        if !p.json {
            show(&store, p)?;
        }
        stores.push(store);
        Ok(())
    })?;
    let differs = stores.iter().any(|store| !store.proof.ok);
    p.code = if differs { DIFFERS } else { unread };
    if p.json {
        p.json(&Answer { stores })?;
    }
    Ok(())
}

fn prove(reader: &dyn StoreReader) -> Result<StoreProof, AdminError> {
    let origin = reader.origin().clone();
    let read = AtomicU64::new(0);
    let proof = thread::scope(|scope| {
        let (done, wait) = mpsc::channel::<()>();
        let ticker = thread::Builder::new().name("progress".into());
        let told = ticker.spawn_scoped(scope, || {
            let wait = wait;
            while wait.recv_timeout(PROGRESS) == Err(RecvTimeoutError::Timeout) {
                tell(&origin, read.load(Ordering::Relaxed));
            }
        });
        // Without a thread for it, nothing is told.
        drop(told);
        let proof = reader.verify(&mut |records| read.store(records, Ordering::Relaxed));
        drop(done);
        proof
    })?;
    // A record that does not read cannot be shown; the difference names it.
    let cause = proof.record.and_then(|seq| {
        let records = reader.records(seq, 1).ok()?.records;
        records.into_iter().find(|record| record.seq == seq)
    });
    Ok(StoreProof {
        origin,
        proof,
        cause,
    })
}

/// Tells that a proof goes on. A bus does not say how far it is.
fn tell(origin: &Origin, records: u64) {
    let mut err = io::stderr().lock();
    let _ = match origin.source {
        Source::Endpoint => writeln!(err, "the bus verifies its store"),
        _ => writeln!(err, "{records} records read"),
    };
}

fn show(store: &StoreProof, p: &mut Printer) -> Result<(), AdminError> {
    let proof = &store.proof;
    let name = store.origin.name();
    if proof.ok {
        p.whole_line(Style::Good, &format!("ok: {name}"))?;
        let text = format!(
            "{} read, head {}, {} compared, {} checked ({})",
            status::count(proof.records, "record"),
            proof.head,
            status::count(proof.rows, "row"),
            if proof.bodies == 1 {
                "1 body".to_owned()
            } else {
                format!("{} bodies", proof.bodies)
            },
            bytes(proof.body_bytes)
        );
        p.field("", &text)?;
        if proof.unbuilt > 0 {
            let unbuilt = status::count(proof.unbuilt, "projection");
            let text =
                format!("{unbuilt} of another version not compared; the next open builds them");
            p.field("", &text)?;
        }
        return Ok(());
    }
    p.whole_line(Style::Bad, &format!("DIFFERS: {name}"))?;
    p.field(
        "difference",
        proof.difference.as_deref().unwrap_or_default(),
    )?;
    match (&store.cause, proof.record) {
        (Some(record), _) => {
            p.field("cause", "the record")?;
            p.line(Style::Plain, &log::text(record))?;
        }
        (None, Some(seq)) => p.field("cause", &format!("record {seq}, which does not read"))?,
        (None, None) => {}
    }
    Ok(())
}
