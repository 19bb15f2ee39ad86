//! What the machine of a sealed session says, on record in order.

use std::path::Path;
use std::sync::Arc;

use interlink::agent::bond::books::BondBooks;
use interlink::agent::bond::page::{Beside, Page};
use interlink::agent::bond::scribe::Scribe;
use interlink::agent::ledger::{Ledger, LedgerError};
use interlink::domain::decide::agent::{Agent, AgentRefusal, BondRefusal};
use interlink::domain::machine::bond::{
    AbortReason, Dropped, Ending, Failure, OfferId, Refusal, Row,
};
use interlink::event::StoredEvent as _;
use interlink::event::agent::{AgentEvent, BondMode, DecidedBy, Verdict};
use interlink::store::{Location, OpenOptions, Store};
use interlink::testkit::FakeClock;
use interlink::types::id::SessionId;
use interlink::types::seq::Seq;
use interlink::wire::bond::Role;
use serde_json::Value;

use crate::support::clock;

struct Desk {
    page: Page,
    ledger: Arc<Ledger>,
    clock: Arc<FakeClock>,
}

impl Desk {
    fn new(dir: &Path) -> Desk {
        let clock = clock();
        let options = OpenOptions::shared(Location::File(dir.join("agent.redb")));
        let store = Store::<Agent>::open(options, clock.clone(), None).unwrap();
        let ledger = Arc::new(Ledger::over(store));
        let session = SessionId::parse("s").unwrap();
        let books = BondBooks::new(Arc::clone(&ledger), clock.clone(), session, None);
        Desk {
            page: Page::new(books, BondMode::Legacy),
            ledger,
            clock,
        }
    }

    async fn row(&mut self, row: Row) {
        self.page.row(&row, &Beside::default()).await.unwrap();
    }

    async fn open(&mut self) {
        let routing = "00112233445566".to_owned();
        self.row(Row::SessionCreated { routing }).await;
    }

    /// What is on record: kinds with their members.
    fn events(&self) -> Vec<(&'static str, Value)> {
        let read = |log: &interlink::store::Snapshot| {
            let mut all = vec![];
            for seq in 1..=log.head()?.0 {
                let event = log.record::<AgentEvent>(Seq(seq))?.unwrap().event;
                all.push((event.kind().name(), event.to_json()));
            }
            Ok(all)
        };
        self.ledger.read_blocking(read).unwrap()
    }
}

fn offer(n: u8) -> (OfferId, Row) {
    let id = OfferId::from_bytes([n; 8]);
    let row = Row::OfferReceived {
        id: id.clone(),
        file: "notes.md".to_owned(),
        size: 5,
        sha256: [n; 32],
        from: "deadbeef".to_owned(),
    };
    (id, row)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_row_of_a_session_is_on_record_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let mut desk = Desk::new(dir.path());
    desk.open().await;
    desk.row(Row::KeyExchangeCompleted { role: Role::Host })
        .await;
    desk.row(Row::KeyConfirmed {
        peer_role: Role::Guest,
    })
    .await;
    desk.row(Row::ChatSent { chars: 12 }).await;
    desk.row(Row::ChatReceived { count: 1 }).await;
    desk.row(Row::ChatReceived { count: 4 }).await;
    let (file, size) = ("a.md".to_owned(), 7);
    desk.row(Row::Outbound {
        file: file.clone(),
        size,
        total: 99,
    })
    .await;
    desk.row(Row::FileSent {
        file: file.clone(),
        size,
        note_chars: 2,
        sha256: None,
    })
    .await;
    desk.row(Row::SendBlocked {
        file,
        reason: Refusal::Type,
    })
    .await;
    let from = "deadbeefdeadbeef".to_owned();
    desk.row(Row::InboundBlocked {
        reason: Refusal::TooManyPending,
        from,
    })
    .await;
    desk.row(Row::PacketDropped {
        reason: Dropped::Reflected,
    })
    .await;
    desk.row(Row::GapDetected { missed: 3 }).await;
    let peer = "deadbeef".to_owned();
    desk.row(Row::PeerDisconnected { peer }).await;
    let reason = AbortReason::WrongTag;
    desk.row(Row::SessionAborted { reason }).await;
    desk.row(Row::SessionEnded {
        reason: Ending::Aborted(reason),
    })
    .await;
    let (books, bond) = (desk.page.books(), desk.page.bond());
    books
        .failed(bond, "bond_send", "not connected")
        .await
        .unwrap();
    let events = desk.events();
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| *kind).collect();
    let expected = [
        "bond_opened",
        "bond_advanced",
        "bond_advanced",
        "bond_said",
        "bond_heard",
        "bond_heard",
        "bond_file_sent",
        "bond_file_blocked",
        "bond_file_blocked",
        "bond_dropped",
        "bond_gap",
        "bond_advanced",
        "bond_ended",
        "bond_failed",
    ];
    assert_eq!(kinds, expected);
    assert_eq!(events[0].1["routing"], "001122334455");
    assert_eq!(events[5].1["messages"], 3);
    assert_eq!(events[6].1["total"], 99);
    assert_eq!(events[8].1["reason"], "pending_cap");
    assert_eq!(events[8].1["peer"], "deadbeef");
    assert_eq!(events[12].1["end"], "aborted");
    assert!(
        events[1..].iter().all(|(_, e)| e["bond"] == 1),
        "{events:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_about_the_bytes_of_its_offer_and_outlives_its_session() {
    let dir = tempfile::tempdir().unwrap();
    let mut desk = Desk::new(dir.path());
    desk.open().await;
    let ((first, row), (second, other)) = (offer(1), offer(2));
    desk.row(row).await;
    desk.row(other).await;
    desk.row(Row::SessionEnded {
        reason: Ending::PeerGone,
    })
    .await;
    let (by, yes, no) = (DecidedBy::Form, Verdict::Accepted, Verdict::Declined);
    let page = &desk.page;
    let decide = async |id: &OfferId, sha256, verdict| page.decide(id, sha256, verdict, by).await;
    assert!(decide(&first, [1; 32], yes).await.unwrap().is_some());
    assert_eq!(decide(&first, [1; 32], yes).await.unwrap(), None);
    page.placed(&first, "/in/notes.md".to_owned(), 5)
        .await
        .unwrap();
    let refusal = |decided: Result<Option<Seq>, LedgerError>| match decided {
        Err(LedgerError::Refused(AgentRefusal::Bond(refusal))) => refusal,
        other => panic!("{other:?}"),
    };
    let late = refusal(decide(&first, [1; 32], no).await);
    assert_eq!(late, BondRefusal::DecidedBefore { verdict: yes });
    let swapped = refusal(decide(&second, [1; 32], yes).await);
    assert_eq!(swapped, BondRefusal::OtherBytes);
    let nobody = refusal(decide(&OfferId::from_bytes([9; 8]), [9; 32], yes).await);
    assert_eq!(nobody, BondRefusal::NoSuchOffer { offer: Seq(0) });
    // It ended before its process did.
    page.quit().await.unwrap();
    let events = desk.events();
    let kinds: Vec<&str> = events[3..].iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, ["bond_ended", "bond_decided", "bond_file_placed"]);
    assert_eq!(events[3].1["end"], "peer_gone");
    assert_eq!(events[4].1["bond"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_is_gone_is_on_record_once_a_minute() {
    let dir = tempfile::tempdir().unwrap();
    let mut desk = Desk::new(dir.path());
    let refused = Failure::Refused { status: 503 };
    desk.row(Row::CallFailed {
        call: "create",
        failure: refused,
    })
    .await;
    // What was never opened has no other record.
    desk.row(Row::PacketDropped {
        reason: Dropped::Replay,
    })
    .await;
    desk.open().await;
    for minute in 0..2 {
        desk.clock.advance(60_000 * minute);
        for _ in 0..20 {
            let failure = Failure::Unreachable;
            desk.row(Row::CallFailed {
                call: "poll",
                failure,
            })
            .await;
        }
    }
    let events = desk.events();
    let kinds: Vec<&str> = events.iter().map(|(kind, _)| *kind).collect();
    let expected = ["bond_failed", "bond_opened", "bond_failed", "bond_failed"];
    assert_eq!(kinds, expected);
    assert_eq!(events[0].1["bond"], Value::Null);
    assert_eq!(events[0].1["reason"], "refused_503");
    assert_eq!(events[2].1["bond"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on_while_its_record_is_written_and_a_flood_is_few_records() {
    let dir = tempfile::tempdir().unwrap();
    let desk = Desk::new(dir.path());
    let scribe = Scribe::start(desk.page.books().clone());
    let put = |row| scribe.row(BondMode::Own, row, Beside::default());
    let routing = "00112233445566".to_owned();
    put(Row::SessionJoined { routing });
    for _ in 0..20_000 {
        let reason = Dropped::Undecryptable;
        put(Row::PacketDropped { reason });
    }
    // A decision waits for the offer before it, however much is written first.
    let (id, row) = offer(1);
    let decided = loop {
        put(row.clone());
        let by = DecidedBy::Tool;
        match scribe.decide(&id, [1; 32], Verdict::Declined, by).await {
            // There was no room for the offer.
            Err(LedgerError::Refused(_)) => {}
            decided => break decided,
        }
    };
    decided.unwrap();
    scribe.placed(id, "/in/a".to_owned(), 5);
    scribe.failed("bond_send", "not connected");
    scribe.close().await;
    let events = desk.events();
    let of = |kind: &'static str| events.iter().filter(move |(k, _)| *k == kind);
    let told: u64 = of("bond_dropped")
        .map(|(_, e)| e["count"].as_u64().unwrap())
        .sum();
    let spare = 16;
    assert!((20_000..20_000 + spare).contains(&told), "{told}");
    assert!(events.len() < 200, "{}", events.len());
    assert_eq!(of("bond_decided").count(), 1);
    // Nobody accepted it.
    assert_eq!(of("bond_file_placed").count(), 0);
    assert_eq!(of("bond_failed").count(), 1);
    let (kind, last) = events.last().unwrap();
    assert_eq!((*kind, &last["end"]), ("bond_ended", &"quit".into()));
}
