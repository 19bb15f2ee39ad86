//! What several modules need.

use std::sync::Arc;
use std::time::Duration;

use interlink::domain::Domain;
use interlink::domain::decide::bus::{Bus, BusCommand, BusReply};
use interlink::domain::tables::{TableId, TableReader};
use interlink::event::Recorded;
use interlink::event::bus::BusEvent;
use interlink::store::{
    Committed, Location, Mode, OpenError, OpenOptions, Snapshot, Store, verify,
};
use interlink::testkit::{Disk, FakeClock};
use interlink::types::seq::Seq;
use interlink::types::time::UnixMillis;

pub(crate) const START: UnixMillis = UnixMillis(1_800_000_000_000);

/// Whether the long versions of the tests are wanted (`INTERLINK_LONG=1`).
pub(crate) fn long() -> bool {
    std::env::var_os("INTERLINK_LONG").is_some_and(|v| v == "1")
}

/// A client of a bus on this machine. With TLS compiled in, the library's own way of making one ends
/// the program unless somebody names a cryptography.
pub(crate) fn web() -> reqwest::blocking::Client {
    let builder = reqwest::blocking::Client::builder();
    #[cfg(feature = "tls")]
    let builder = {
        use tokio_rustls::rustls::{ClientConfig, RootCertStore};
        let provider = Arc::new(rustls_graviola::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        let nobody = config.with_root_certificates(RootCertStore::empty());
        builder.tls_backend_preconfigured(nobody.with_no_client_auth())
    };
    builder.build().unwrap()
}

/// Where seeded tests start: `INTERLINK_SEED`, or the same number every time. Printed, so that a
/// failure names it.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("INTERLINK_SEED").ok();
    let seed = given.and_then(|s| s.parse().ok()).unwrap_or(20_260_101);
    println!("INTERLINK_SEED={seed}");
    seed
}

pub(crate) fn clock() -> Arc<FakeClock> {
    Arc::new(FakeClock::new(START))
}

pub(crate) fn on_disk(disk: &Disk, mode: Mode) -> OpenOptions {
    let location = Location::Backend(Arc::new(disk.clone()));
    let mut options = match mode {
        Mode::Exclusive => OpenOptions::exclusive(location),
        Mode::Shared => OpenOptions::shared(location),
    };
    options.cache_bytes = 1 << 20;
    options.deadline = Duration::from_secs(20);
    options
}

pub(crate) fn open(disk: &Disk, mode: Mode) -> Result<Store<Bus>, OpenError> {
    Store::open(on_disk(disk, mode), clock(), None)
}

/// The sessions that a bus relays.
pub(crate) fn relayed(store: &Store<Bus>) -> Vec<Seq> {
    store.with_index(|index, _| index.relay().iter().map(|(at, _)| at).collect())
}

pub(crate) fn run(store: &Store<Bus>, command: BusCommand) -> Committed<BusReply> {
    store.submit(command).unwrap().wait().unwrap()
}

/// Position of the message that an enqueue brought.
pub(crate) fn queued(reply: &BusReply) -> Seq {
    match reply {
        BusReply::Enqueued { seq, .. } => *seq,
        other => panic!("not an enqueue: {other:?}"),
    }
}

pub(crate) fn verified<D: Domain>(snapshot: &Snapshot) -> verify::Report {
    verify::verify::<D>(snapshot, |_| {}).unwrap_or_else(|e| panic!("verify: {e}"))
}

/// Every record of a log.
pub(crate) fn records(snapshot: &Snapshot) -> Vec<Recorded<BusEvent>> {
    let mut out = vec![];
    snapshot
        .frames(Seq::ZERO, |seq, bytes| {
            out.push(Recorded::from_frame(seq, bytes)?);
            Ok(std::ops::ControlFlow::Continue(()))
        })
        .unwrap();
    out
}

/// Every row of a kind of store, as text.
pub(crate) fn rows<D: Domain>(tables: &dyn TableReader) -> Vec<String> {
    let mut out = vec![];
    for id in TableId::ALL.iter().filter(|id| id.store() == D::KIND) {
        tables
            .scan(
                *id,
                std::ops::Bound::Unbounded,
                std::ops::Bound::Unbounded,
                &mut |key, value| {
                    let hex = |bytes| data_encoding::HEXLOWER.encode(bytes);
                    out.push(format!("{} {} {}", id.name(), hex(key), hex(value)));
                    std::ops::ControlFlow::Continue(())
                },
            )
            .unwrap();
    }
    out
}
