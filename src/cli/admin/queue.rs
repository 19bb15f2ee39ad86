//! `queue`: what waits on the bus, by recipient.

use serde::Serialize;

use super::error::AdminError;
use super::locate::Target;
use super::print::{Printer, Style, age, bytes, now, short};
use super::reader::owner;
use super::status;
use crate::event::kind::StoreKind;
use crate::wire::admin::QueueRow;

#[derive(Serialize)]
struct Answer {
    stores: Vec<StoreQueues>,
}

#[derive(Serialize)]
struct StoreQueues {
    store: Option<String>,
    queues: Vec<QueueRow>,
}

pub(super) fn run(targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    let mut stores = vec![];
    p.code = super::each(targets, |reader| {
        // Among several stores those of the other kind are passed over.
        if targets.len() == 1 {
            reader.expect(StoreKind::Bus)?;
        }
        if reader.origin().kind == StoreKind::Bus {
            stores.push(StoreQueues {
                store: reader.origin().store.clone(),
                queues: reader.queues()?.queues,
            });
        }
        Ok(())
    })?;
    if stores.is_empty() && p.code == 0 {
        let wanted = owner(StoreKind::Bus);
        return Err(AdminError::NoneOfKind { wanted });
    }
    if p.json {
        return Ok(p.json(&Answer { stores })?);
    }
    let many = stores.len() > 1;
    for store in &stores {
        status::heading(store.store.as_deref().unwrap_or("(memory)"), many, p)?;
        show(&store.queues, p)?;
    }
    Ok(())
}

fn show(queues: &[QueueRow], p: &mut Printer) -> Result<(), AdminError> {
    if queues.is_empty() {
        return Ok(p.line(Style::Plain, "nothing waits")?);
    }
    let now = now();
    let rows: Vec<Vec<String>> = queues
        .iter()
        .map(|queue| {
            vec![
                queue.messages.to_string(),
                bytes(queue.bytes),
                age(now, queue.oldest_at),
                queue.oldest_seq.to_string(),
                short(&queue.to),
            ]
        })
        .collect();
    p.table(
        &[" MESSAGES", " BYTES", " OLDEST", " RECORD", "RECIPIENT"],
        &rows,
    )?;
    Ok(())
}
