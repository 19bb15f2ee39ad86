//! What is recorded of sealed sessions, on rows in memory.

use super::rig::{Rig, session};
use crate::domain::decide::agent::{
    AgentCommand, AgentRefusal, AgentReply, BondCommand, BondNews, BondRefusal,
};
use crate::domain::projection::agent::{BondState, OfferState};
use crate::domain::query::agent as query;
use crate::event::agent::{AgentEvent, BondEnd, BondMode, BondRole, BondStep, DecidedBy, Verdict};
use crate::types::limit::{MAX_BOND_OFFER_ROWS, MAX_BOND_ROWS};
use crate::types::seq::Seq;

const SHOWN: [u8; 32] = [3; 32];

impl Rig {
    fn bond(&mut self, command: BondCommand) -> Result<Option<Seq>, AgentRefusal> {
        match self.submit(AgentCommand::Bond(command))? {
            AgentReply::Bond { seq } => Ok(seq),
            other => panic!("{other:?}"),
        }
    }

    fn open(&mut self) -> Seq {
        let opened = self.bond(BondCommand::Open {
            session: session("s"),
            pid: 7,
            process_start: 1,
            role: BondRole::Host,
            mode: BondMode::Legacy,
            routing: [1; 6],
        });
        opened.unwrap().unwrap()
    }

    fn tell(&mut self, bond: Seq, news: BondNews) -> Result<Option<Seq>, AgentRefusal> {
        self.bond(BondCommand::Tell { bond, pid: 7, news })
    }

    fn offer(&mut self, bond: Seq, name: &str) -> Seq {
        let offered = self.tell(
            bond,
            BondNews::Offered {
                id: "f1".to_owned(),
                name: name.to_owned(),
                size: 5,
                file_type: "text".to_owned(),
                sha256: SHOWN,
                peer: None,
                rules: vec!["rule".to_owned(); 40],
            },
        );
        offered.unwrap().unwrap()
    }

    fn verdict(
        &mut self,
        offer: Seq,
        sha256: [u8; 32],
        verdict: Verdict,
    ) -> Result<Option<Seq>, AgentRefusal> {
        let by = DecidedBy::Operator;
        self.bond(BondCommand::Decide {
            offer,
            pid: 8,
            sha256,
            verdict,
            by,
        })
    }

    fn placed(&mut self, offer: Seq) -> Result<Option<Seq>, AgentRefusal> {
        let path = "/in/a".to_owned();
        self.bond(BondCommand::Placed {
            offer,
            pid: 8,
            path,
            size: 5,
        })
    }

    fn state(&self, bond: Seq) -> BondState {
        query::bond(&self.tables, bond).unwrap().unwrap().state
    }
}

fn refused(refusal: BondRefusal) -> Result<Option<Seq>, AgentRefusal> {
    Err(AgentRefusal::Bond(refusal))
}

#[test]
fn a_decision_is_bound_to_the_bytes_that_were_shown_and_counts_once() {
    let mut rig = Rig::new();
    let bond = rig.open();
    let offer = rig.offer(bond, "notes.md");
    assert_eq!(rig.placed(offer), refused(BondRefusal::NotAccepted));
    let other = rig.verdict(offer, [4; 32], Verdict::Accepted);
    assert_eq!(other, refused(BondRefusal::OtherBytes));
    assert!(
        rig.verdict(offer, SHOWN, Verdict::Accepted)
            .unwrap()
            .is_some()
    );
    assert_eq!(rig.verdict(offer, SHOWN, Verdict::Accepted), Ok(None));
    let verdict = Verdict::Accepted;
    let late = rig.verdict(offer, SHOWN, Verdict::Declined);
    assert_eq!(late, refused(BondRefusal::DecidedBefore { verdict }));
    assert!(rig.placed(offer).unwrap().is_some());
    assert_eq!(rig.placed(offer), Ok(None));
    let row = query::bond_offer(&rig.tables, offer).unwrap().unwrap();
    assert_eq!(row.state, OfferState::Decided(verdict, DecidedBy::Operator));
    assert_eq!(row.path.as_deref(), Some("/in/a"));
    let nobody = Seq(99);
    let unknown = rig.verdict(nobody, SHOWN, Verdict::Accepted);
    assert_eq!(unknown, refused(BondRefusal::NoSuchOffer { offer: nobody }));
    // The decision tells its whole story: what was decided, about which bytes, by whose process.
    let Some(AgentEvent::BondDecided(e)) = rig.log.get(2).map(|r| r.event.clone()) else {
        panic!("{:?}", rig.log);
    };
    assert_eq!((e.of.bond, e.of.pid, e.sha256), (bond, 8, SHOWN));
    assert_eq!(e.name, "notes.md");
}

#[test]
fn what_is_over_stays_over_and_what_was_proved_stays_proved() {
    let mut rig = Rig::new();
    let bond = rig.open();
    let step = |rig: &mut Rig, step| {
        rig.tell(bond, BondNews::Advanced { step, peer: None })
            .unwrap();
        rig.state(bond)
    };
    assert_eq!(step(&mut rig, BondStep::PeerJoined), BondState::Waiting);
    assert_eq!(step(&mut rig, BondStep::Keyed), BondState::Keyed);
    assert_eq!(step(&mut rig, BondStep::Confirmed), BondState::Confirmed);
    assert_eq!(step(&mut rig, BondStep::Keyed), BondState::Confirmed);
    let over = |end| BondNews::Ended {
        end,
        reason: "\u{1b}[2Jx".to_owned(),
    };
    assert!(rig.tell(bond, over(BondEnd::Aborted)).unwrap().is_some());
    assert_eq!(rig.tell(bond, over(BondEnd::Tool)), Ok(None));
    let ended = BondState::Ended(BondEnd::Aborted);
    assert_eq!(step(&mut rig, BondStep::Confirmed), ended);
    let row = query::bond(&rig.tables, bond).unwrap().unwrap();
    assert_eq!(row.reason, "\\u{1b}[2Jx");
    // A file that waited when the session ended may still be accepted.
    let offer = rig.offer(bond, "late.md");
    assert!(
        rig.verdict(offer, SHOWN, Verdict::Accepted)
            .unwrap()
            .is_some()
    );
}

#[test]
fn names_of_a_peer_are_spelled_out_and_bounded_in_the_record() {
    let mut rig = Rig::new();
    let bond = rig.open();
    let offer = rig.offer(bond, &"\u{202e}".repeat(255));
    let row = query::bond_offer(&rig.tables, offer).unwrap().unwrap();
    assert!(row.name.len() <= 256 && row.name.is_ascii(), "{}", row.name);
    assert_eq!(row.rules.len(), 16);
}

#[test]
fn the_oldest_rows_give_way_and_what_is_told_of_them_is_refused() {
    let mut rig = Rig::new();
    let first = rig.open();
    let offer = rig.offer(first, "a");
    for _ in 0..MAX_BOND_ROWS {
        rig.open();
    }
    let bond = rig.open();
    assert_eq!(query::bonds(&rig.tables).unwrap().len(), MAX_BOND_ROWS);
    let said = rig.tell(first, BondNews::Said { chars: 1 });
    assert_eq!(said, refused(BondRefusal::NoSuchBond { bond: first }));
    // Its file may still be decided about: its row is there.
    assert!(
        rig.verdict(offer, SHOWN, Verdict::Declined)
            .unwrap()
            .is_some()
    );
    for _ in 0..MAX_BOND_OFFER_ROWS {
        rig.offer(bond, "b");
    }
    let offers = query::bond_offers(&rig.tables).unwrap();
    assert_eq!(offers.len(), MAX_BOND_OFFER_ROWS);
    assert!(offers.iter().all(|(seq, _)| *seq > offer));
}
