//! A store without a disk: decide, append, apply, on rows in memory. Every record passes through
//! its frame.

use std::collections::BTreeMap;
use std::sync::Arc;

use interlink::domain::projection::apply_all;
use interlink::domain::tables::MemTables;
use interlink::domain::{Domain, View};
use interlink::event::Recorded;
use interlink::types::seq::Seq;
use interlink::types::time::UnixMillis;

pub struct Memory<D: Domain> {
    pub tables: MemTables,
    pub index: D::Index,
    pub log: Vec<Recorded<D::Event>>,
    bodies: BTreeMap<Seq, Arc<[u8]>>,
}

impl<D: Domain> Memory<D> {
    pub fn new() -> Self {
        let tables = MemTables::new();
        Memory {
            index: D::build_index(&tables).unwrap(),
            tables,
            log: vec![],
            bodies: BTreeMap::new(),
        }
    }

    pub fn submit(
        &mut self,
        now: UnixMillis,
        command: &D::Command,
    ) -> Result<D::Reply, D::Refusal> {
        let mut seq = Seq(self.log.len() as u64 + 1);
        let view = View {
            tables: &self.tables,
            index: &self.index,
            next: seq,
        };
        let decision = D::decide(&view, command).unwrap()?;
        for new in decision.events {
            for gone in D::releases(&new.event) {
                self.bodies.remove(gone);
            }
            if let Some(body) = new.body {
                self.bodies.insert(seq, body);
            }
            let record = Recorded {
                seq,
                at: now,
                event: new.event,
            };
            let record = Recorded::from_frame(seq, &record.to_frame().unwrap()).unwrap();
            apply_all(D::projections(), &mut self.tables, &record).unwrap();
            D::index(&mut self.index, &record);
            self.log.push(record);
            seq = seq.next();
        }
        Ok(decision.reply)
    }

    pub fn body(&self, seq: Seq) -> Option<&[u8]> {
        self.bodies.get(&seq).map(|body| &**body)
    }

    /// The process is killed and starts again: all that is left is the log and the bodies.
    pub fn restart(&mut self) {
        let mut fresh = MemTables::new();
        for record in &self.log {
            apply_all(D::projections(), &mut fresh, record).unwrap();
        }
        assert!(fresh == self.tables, "a replay gives other rows");
        self.tables = fresh;
        self.index = D::build_index(&self.tables).unwrap();
        let mut live = vec![];
        D::live_bodies(&self.tables, &mut |body| live.push(body.seq)).unwrap();
        live.sort();
        assert!(
            self.bodies.keys().copied().eq(live),
            "bodies are exactly those that rows need"
        );
    }
}
