//! `queue`: what waits on the bus, by recipient.

use super::error::AdminError;
use super::listing::Listing;
use super::locate::Target;
use super::print::{Printer, Style, age, bytes, now, short};
use crate::event::kind::StoreKind;
use crate::wire::admin::QueueRow;

const LISTING: Listing = Listing {
    kind: StoreKind::Bus,
    name: "queues",
};

pub(super) fn run(targets: &[Target], p: &mut Printer) -> Result<(), AdminError> {
    LISTING.run(targets, p, |reader| Ok(reader.queues()?.queues), show)
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
